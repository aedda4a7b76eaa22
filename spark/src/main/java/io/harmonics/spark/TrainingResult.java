package io.harmonics.spark;

import io.harmonics.NamedTensors;
import io.harmonics.Report;
import io.harmonics.Tensor;
import io.harmonics.Weights;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What a training job came to. That of a model that was loaded has its weights and its report; how
 * the run went is not saved.
 */
public final class TrainingResult {
  /**
   * How a run went.
   *
   * @param name of the job on the driver's board
   */
  record Run(
      String name,
      Set<String> processes,
      List<Report> traffic,
      List<Proof> proofs,
      long resumedFrom,
      int attempts,
      long repeated) {
    /** Of a result that was loaded. */
    static final Run NONE = new Run("", Set.of(), List.of(), List.of(), 0, 0, 0);
  }

  private final byte[] graph;
  private final Report report;
  private final Map<String, NamedArray> weights;
  private final Run run;

  TrainingResult(byte[] graph, Report report, Map<String, NamedArray> weights, Run run) {
    this.graph = graph;
    this.report = report;
    this.weights = weights;
    this.run = run;
  }

  /** Epochs, steps, samples and, of the part that knows it, loss and accuracy. */
  public Report report() {
    return report;
  }

  /** The names of all parameters and buffers. */
  public Set<String> names() {
    return weights.keySet();
  }

  /** One parameter. A name that there is not is an error that lists those that there are. */
  public Tensor weight(String name) {
    NamedArray found = weights.get(name);
    if (found == null) {
      throw new IllegalArgumentException(
          "there is no parameter '" + name + "'; there are " + String.join(", ", names()));
    }
    return found.tensor();
  }

  /** SHA-256 over all weights, the same as the native library and command line give. */
  public String weightsDigest() {
    return Weights.digest(tensors());
  }

  /** Writes the weights as a safetensors file, which {@code harmonics run --weights} reads. */
  public void save(Path file) {
    Weights.save(file, tensors());
  }

  void save(SavedStage to) throws IOException {
    to.write("graph.blob", graph);
    to.write("report.json", report.json().getBytes(StandardCharsets.UTF_8));
    Path file = Files.createTempFile("harmonics", ".safetensors");
    try {
      save(file);
      to.copyFrom(file, "weights.safetensors");
    } finally {
      Files.delete(file);
    }
  }

  static TrainingResult load(SavedStage from) throws IOException {
    String report = new String(from.read("report.json"), StandardCharsets.UTF_8);
    Path file = Files.createTempFile("harmonics", ".safetensors");
    try {
      from.copyTo(file, "weights.safetensors");
      return of(from.read("graph.blob"), new Report(report), file);
    } finally {
      Files.delete(file);
    }
  }

  /** A graph with the weights of a safetensors file. */
  static TrainingResult of(byte[] graph, Report report, Path file) {
    Map<String, NamedArray> weights = new TreeMap<>();
    try (NamedTensors tensors = Weights.load(file)) {
      NamedArray.of(tensors).forEach(array -> weights.put(array.name(), array));
    }
    return new TrainingResult(graph, report, weights, Run.NONE);
  }

  /** Process ids of the executors that took part. */
  public Set<String> processes() {
    return run.processes();
  }

  /** How often the tasks were started: more than once when an executor was lost. */
  public int attempts() {
    return run.attempts();
  }

  /**
   * What each task sent and received: {@code bytes_sent}, {@code socket_payload_sent} …, and under
   * {@code ends} over what ({@code bus}, {@code shm}, {@code tcp}, {@code grpc}).
   */
  public List<Report> traffic() {
    return run.traffic();
  }

  /** What the tasks of a secure job signed last, a line each; empty in another. */
  public List<String> proofs() {
    return Proof.lines(run.proofs());
  }

  /**
   * Writes the chains of a secure job, a file for each task, and answers them: {@code harmonics
   * verify} takes them all. The folder is made where it is missing.
   */
  public List<Path> saveChains(Path folder) throws IOException {
    return Proof.save(run.proofs(), folder);
  }

  /** The step from which the tasks that finished had gone on; 0 when they began anew. */
  public long resumedFrom() {
    return run.resumedFrom();
  }

  /** Steps that were done again after the last loss of an executor. */
  public long repeated() {
    return run.repeated();
  }

  /** The graph as bytes, with all shapes known. */
  byte[] graph() {
    return graph;
  }

  /** The job's name on the driver's board. */
  String name() {
    return run.name();
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
