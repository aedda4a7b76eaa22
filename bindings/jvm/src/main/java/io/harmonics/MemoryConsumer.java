package io.harmonics;

/** Keeps every batch that is pushed to it. */
public final class MemoryConsumer extends NativeObject {
  public MemoryConsumer() {
    super(Native.consumerMemory(), Native::consumerFree);
  }

  /** All rows so far as one tensor, named {@code rows}. */
  public NamedTensors rows() {
    return new NamedTensors(Native.consumerTake(handle()));
  }
}
