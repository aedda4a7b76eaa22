package io.harmonics.spark;

import io.harmonics.Engine;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a task of a secure job can show: the lines that it signed last, and its chain, which {@code
 * harmonics verify} reads.
 */
record Proof(String lines, byte[] chain) implements Serializable {
  /** The lines of all, one each. */
  static List<String> lines(List<Proof> proofs) {
    return proofs.stream().flatMap(proof -> proof.lines().lines()).toList();
  }

  /** Writes the chains of all, a file each; the folder is made where it is missing. */
  static List<Path> save(List<Proof> proofs, Path folder) throws IOException {
    Files.createDirectories(folder);
    List<Path> files = new ArrayList<>();
    for (Proof proof : proofs) {
      files.add(Files.write(folder.resolve("part" + files.size() + ".chain"), proof.chain()));
    }
    return files;
  }

  /** Where a task writes its chain. */
  static final class Place implements AutoCloseable {
    private final Path chain;
    /** Ends with the task; null when the chain stays. */
    private final Path folder;

    /**
     * Beside the checkpoint, where the task that takes over from this one finds the chain and goes
     * on in it; in a folder of this machine when the job has no checkpoint.
     */
    Place(String checkpoint, int part) throws IOException {
      folder = checkpoint.isEmpty() ? Files.createTempDirectory("harmonics-proof") : null;
      String name = "part" + part + ".chain";
      chain = folder == null ? Path.of(checkpoint + "." + name) : folder.resolve(name);
    }

    Map<String, Object> settings(String keys) {
      Map<String, Object> settings = new LinkedHashMap<>();
      settings.put("secure", true);
      settings.put("secure_chain", chain.toString());
      settings.put("secure_sets_aside", true);
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
      if (folder != null) {
        Files.deleteIfExists(chain);
        Files.delete(folder);
      }
    }
  }
}
