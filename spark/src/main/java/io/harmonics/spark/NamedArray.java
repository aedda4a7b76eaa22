package io.harmonics.spark;

import io.harmonics.NamedTensors;
import io.harmonics.Tensor;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** A tensor on its way to the driver, with its name. */
record NamedArray(String name, String dtype, long[] shape, byte[] bytes) implements Serializable {
  /** Copies of all of them, in name order. */
  static ArrayList<NamedArray> of(NamedTensors tensors) {
    ArrayList<NamedArray> copies = new ArrayList<>();
    tensors
        .asMap()
        .forEach(
            (name, tensor) -> {
              ByteBuffer data = tensor.data();
              byte[] bytes = new byte[data.remaining()];
              data.get(bytes);
              copies.add(new NamedArray(name, tensor.dtype(), tensor.shape(), bytes));
            });
    copies.sort(java.util.Comparator.comparing(NamedArray::name));
    return copies;
  }

  Tensor tensor() {
    ByteBuffer data = ByteBuffer.allocateDirect(bytes.length);
    data.put(bytes).flip();
    return Tensor.of(dtype, shape, data);
  }

  static long size(List<NamedArray> arrays) {
    return arrays.stream().mapToLong(array -> array.bytes.length).sum();
  }
}
