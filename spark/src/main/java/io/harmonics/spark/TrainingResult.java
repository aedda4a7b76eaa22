package io.harmonics.spark;

import io.harmonics.Report;
import io.harmonics.Tensor;
import io.harmonics.Weights;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What a training job came to. */
public final class TrainingResult {
  private final Report report;
  private final Map<String, NamedArray> weights;
  private final Set<String> processes;
  private final int attempts;

  TrainingResult(
      Report report, Map<String, NamedArray> weights, Set<String> processes, int attempts) {
    this.report = report;
    this.weights = weights;
    this.processes = processes;
    this.attempts = attempts;
  }

  /** Epochs, steps, samples and, of the part that knows it, loss and accuracy. */
  public Report report() {
    return report;
  }

  /** The names of all parameters and buffers. */
  public Set<String> names() {
    return weights.keySet();
  }

  /** One parameter. */
  public Tensor weight(String name) {
    return weights.get(name).tensor();
  }

  /** SHA-256 over all weights, the same as the native library and command line give. */
  public String weightsDigest() {
    return Weights.digest(tensors());
  }

  /** Writes the weights as a safetensors file, which {@code harmonics run --weights} reads. */
  public void save(Path file) {
    Weights.save(file, tensors());
  }

  /** Process ids of the executors that took part. */
  public Set<String> processes() {
    return processes;
  }

  /** How often the tasks were started: more than once when an executor was lost. */
  public int attempts() {
    return attempts;
  }

  List<NamedArray> arrays() {
    return List.copyOf(weights.values());
  }

  private Map<String, Tensor> tensors() {
    Map<String, Tensor> made = new LinkedHashMap<>();
    weights.forEach((name, array) -> made.put(name, array.tensor()));
    return made;
  }
}
