package io.harmonics;

import java.nio.file.Path;

/** A source of tensors. It may be closed once it is bound: what it is bound to keeps it. */
public class Producer extends NativeObject {
  Producer(long handle) {
    super(handle, Native::producerFree);
  }

  /**
   * Opens a source from text, such as {@code csv:digits.csv?columns=0-63}; a relative path starts
   * at {@code folder}.
   */
  public static Producer open(String source, Path folder) {
    return new Producer(Native.producerOpen(Native.utf8(source), Native.utf8(folder.toString())));
  }

  /**
   * The same over a file of {@code size} bytes that {@code reader} reads; the path in the text is
   * only its name.
   */
  public static Producer open(String source, long size, ByteReader reader) {
    return new Producer(Native.producerOpenBytes(Native.utf8(source), size, reader));
  }

  /** Every {@code count}-th sample from {@code first} on: one of {@code count} equal shares. */
  public Producer share(long first, long count) {
    return new Producer(Native.producerStride(handle(), first, count));
  }

  /** Samples in one epoch; -1 for an endless source. */
  public long samples() {
    return Native.producerSamples(handle());
  }
}
