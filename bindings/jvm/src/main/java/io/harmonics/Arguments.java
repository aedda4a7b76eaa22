package io.harmonics;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Named tensors on their way to native code, which uses their bytes in place. */
final class Arguments {
  private final List<String> names;
  private final List<Tensor> tensors;

  Arguments(Map<String, Tensor> named) {
    names = new ArrayList<>(named.keySet());
    tensors = names.stream().map(named::get).toList();
  }

  byte[][] names() {
    return Native.utf8(names);
  }

  byte[][] dtypes() {
    return Native.utf8(tensors.stream().map(Tensor::dtype).toList());
  }

  long[][] shapes() {
    return tensors.stream().map(Tensor::shape).toArray(long[][]::new);
  }

  ByteBuffer[] data() {
    return tensors.stream().map(Tensor::data).toArray(ByteBuffer[]::new);
  }
}
