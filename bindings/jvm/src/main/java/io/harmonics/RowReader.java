package io.harmonics;

import java.nio.ByteBuffer;

/** Makes samples for a {@link RowProducer}. May be called from any thread. */
@FunctionalInterface
public interface RowReader {
  /**
   * Writes the samples of these rows, one after another, into {@code out}, which has exactly the
   * room and is in native byte order once {@code out.order(ByteOrder.nativeOrder())} is called.
   */
  void read(long[] rows, ByteBuffer out);
}
