package io.harmonics;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Samples that Java code makes. */
public final class RowProducer extends Producer {
  /**
   * Samples of that dtype ({@code float32}, {@code int64} …) and shape, which {@code reader}
   * makes.
   */
  public RowProducer(String dtype, long[] shape, long rows, RowReader reader) {
    super(
        Native.producerRows(
            Native.utf8(dtype),
            shape,
            rows,
            (numbers, out) -> reader.read(numbers, out.order(ByteOrder.nativeOrder()))));
  }

  /** Rows of floats that lie one after another. */
  public static RowProducer of(float[] values, long... shape) {
    int size = (int) elements(shape);
    return new RowProducer(
        "float32",
        shape,
        size == 0 ? 0 : values.length / size,
        (rows, out) -> {
          for (long row : rows) {
            putFloats(values, (int) row * size, size, out);
          }
        });
  }

  /** Rows of whole numbers that lie one after another. */
  public static RowProducer of(long[] values, long... shape) {
    int size = (int) elements(shape);
    return new RowProducer(
        "int64",
        shape,
        size == 0 ? 0 : values.length / size,
        (rows, out) -> {
          for (long row : rows) {
            for (int i = 0; i < size; i++) {
              out.putLong(values[(int) row * size + i]);
            }
          }
        });
  }

  private static void putFloats(float[] from, int offset, int count, ByteBuffer out) {
    out.asFloatBuffer().put(from, offset, count);
    out.position(out.position() + 4 * count);
  }

  private static long elements(long[] shape) {
    long product = 1;
    for (long axis : shape) {
      product *= axis;
    }
    return product;
  }
}
