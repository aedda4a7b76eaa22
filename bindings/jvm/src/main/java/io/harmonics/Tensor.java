package io.harmonics;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Shape, dtype and the bytes, in a direct buffer that native code uses in place. Bytes that were
 * handed over must not be changed afterwards.
 */
public final class Tensor {
  private final String dtype;
  private final long[] shape;
  private final ByteBuffer data;
  /** What owns the memory; null when the buffer does. */
  private final NamedTensors owner;

  Tensor(String dtype, long[] shape, ByteBuffer data, NamedTensors owner) {
    this.dtype = dtype;
    this.shape = shape.clone();
    this.data = data.order(ByteOrder.nativeOrder());
    this.owner = owner;
  }

  /** A tensor over the whole of a direct buffer, without copying. */
  public static Tensor of(String dtype, long[] shape, ByteBuffer data) {
    if (!data.isDirect()) {
      throw new IllegalArgumentException("a tensor needs a direct buffer (allocateDirect)");
    }
    return new Tensor(dtype, shape, data, null);
  }

  /** A tensor with a copy of these values. */
  public static Tensor of(long[] shape, float... values) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * values.length).order(ByteOrder.nativeOrder());
    data.asFloatBuffer().put(values);
    return new Tensor("float32", shape, data, null);
  }

  public String dtype() {
    return dtype;
  }

  public long[] shape() {
    return shape.clone();
  }

  /** The bytes in native order; the caller's own position and limit. */
  public ByteBuffer data() {
    if (owner != null) {
      owner.handle(); // an error once it is closed
    }
    return data.duplicate().order(ByteOrder.nativeOrder());
  }

  /** A copy of the values of a float32 tensor. */
  public float[] floats() {
    if (!dtype.equals("float32")) {
      throw new IllegalStateException("this tensor holds " + dtype + ", not float32");
    }
    float[] values = new float[data().remaining() / 4];
    data().asFloatBuffer().get(values);
    return values;
  }
}
