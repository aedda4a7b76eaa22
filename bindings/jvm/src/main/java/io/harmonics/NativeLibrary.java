package io.harmonics;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Finds and loads the native library: the file that the system property {@code harmonics.library}
 * or the environment variable {@code HARMONICS_JNI_LIBRARY} names, or else the one in this jar,
 * which is unpacked once per user and content. A second class loader gets a copy of its own, since
 * Java loads a file for one loader only.
 */
final class NativeLibrary {
  private static final String RESOURCE = "/native/" + System.mapLibraryName("harmonics_jni");

  private NativeLibrary() {}

  static void load() {
    try {
      loadFor(find());
    } catch (IOException error) {
      throw new UnsatisfiedLinkError(
          "the native library of Harmonics cannot be unpacked: " + error);
    }
  }

  private static Path find() throws IOException {
    String named = System.getProperty("harmonics.library", System.getenv("HARMONICS_JNI_LIBRARY"));
    if (named != null && !named.isEmpty()) {
      Path path = Path.of(named).toAbsolutePath();
      if (!Files.isRegularFile(path)) {
        throw new UnsatisfiedLinkError(
            "there is no file '" + path + "' (harmonics.library or HARMONICS_JNI_LIBRARY)");
      }
      return path;
    }
    return unpack();
  }

  private static Path unpack() throws IOException {
    byte[] content;
    try (InputStream in = NativeLibrary.class.getResourceAsStream(RESOURCE)) {
      if (in == null) {
        throw new UnsatisfiedLinkError("this jar holds no " + RESOURCE
            + ": set -Dharmonics.library=PATH of libharmonics_jni.so");
      }
      content = in.readAllBytes();
    }
    Path folder = Path.of(
        System.getProperty("java.io.tmpdir"), "harmonics-" + System.getProperty("user.name"));
    Files.createDirectories(folder);
    Path place = folder.resolve(digest(content) + ".so");
    if (!Files.exists(place) || Files.size(place) != content.length) {
      Path fresh = Files.createTempFile(folder, "unpacking", ".so");
      Files.write(fresh, content);
      Files.move(fresh, place, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
    return place;
  }

  private static void loadFor(Path path) throws IOException {
    try {
      System.load(path.toString());
    } catch (UnsatisfiedLinkError error) {
      if (!String.valueOf(error.getMessage()).contains("already loaded in another classloader")) {
        throw error;
      }
      Path copy = Files.createTempFile("harmonics-loader", ".so");
      try {
        Files.copy(path, copy, StandardCopyOption.REPLACE_EXISTING);
        System.load(copy.toString());
      } finally {
        // The loaded library stays mapped.
        Files.deleteIfExists(copy);
      }
    }
  }

  private static String digest(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
