package io.harmonics;

import java.nio.file.Path;
import java.util.Map;

/** Sets of named tensors as weights. */
public final class Weights {
  private Weights() {}

  /** SHA-256 over names, shapes and bytes: equal exactly when the weights are. */
  public static String digest(Map<String, Tensor> weights) {
    Arguments all = new Arguments(weights);
    return Native.text(
        Native.weightsDigest(all.names(), all.dtypes(), all.shapes(), all.data()));
  }

  /** Writes a safetensors file, whole or not at all. */
  public static void save(Path file, Map<String, Tensor> weights) {
    Arguments all = new Arguments(weights);
    Native.weightsSave(
        Native.utf8(file.toString()), all.names(), all.dtypes(), all.shapes(), all.data());
  }

  /** All tensors of a safetensors file. */
  public static NamedTensors load(Path file) {
    return new NamedTensors(Native.weightsLoad(Native.utf8(file.toString())));
  }
}
