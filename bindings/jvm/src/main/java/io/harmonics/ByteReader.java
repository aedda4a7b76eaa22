package io.harmonics;

import java.io.IOException;
import java.nio.ByteBuffer;

/** Reads a file for native code. May be called from any thread. */
@FunctionalInterface
public interface ByteReader {
  /** Fills the whole of {@code out} with the bytes of the file from {@code offset} on. */
  void read(long offset, ByteBuffer out) throws IOException;
}
