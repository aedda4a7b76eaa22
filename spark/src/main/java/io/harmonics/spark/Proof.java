package io.harmonics.spark;

import io.harmonics.Engine;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a task of a secure job can show: the lines that it signed last, and its chain, which {@code
 * harmonics verify} reads.
 */
record Proof(String lines, byte[] chain) implements Serializable {
  /** Where a task keeps its chain until it answers. */
  static final class Folder implements AutoCloseable {
    private final Path folder;
    private final Path chain;

    Folder() throws IOException {
      folder = Files.createTempDirectory("harmonics-proof");
      chain = folder.resolve("part.chain");
    }

    Map<String, Object> settings(String keys) {
      Map<String, Object> settings = new LinkedHashMap<>();
      settings.put("secure", true);
      settings.put("secure_chain", chain.toString());
      if (!keys.isEmpty()) {
        settings.put("secure_keys", keys);
      }
      return settings;
    }

    /** Of a run that was sealed. */
    Proof proof(Engine engine) throws IOException {
      return new Proof(engine.proof(), Files.readAllBytes(chain));
    }

    @Override
    public void close() throws IOException {
      try (var left = Files.list(folder)) {
        for (Path file : left.toList()) {
          Files.delete(file);
        }
      }
      Files.delete(folder);
    }
  }
}
