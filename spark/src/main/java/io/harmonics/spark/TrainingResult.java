package io.harmonics.spark;

import io.harmonics.Report;
import io.harmonics.Tensor;
import io.harmonics.Weights;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What a training job came to. */
public final class TrainingResult {
  private final String name;
  private final byte[] graph;
  private final Report report;
  private final Map<String, NamedArray> weights;
  private final Set<String> processes;
  private final List<Report> traffic;
  private final List<Proof> proofs;
  private final long resumedFrom;
  private final int attempts;
  private final long repeated;

  TrainingResult(
      String name,
      byte[] graph,
      Report report,
      Map<String, NamedArray> weights,
      Set<String> processes,
      List<Report> traffic,
      List<Proof> proofs,
      long resumedFrom) {
    this.name = name;
    this.graph = graph;
    this.report = report;
    this.weights = weights;
    this.processes = processes;
    this.traffic = traffic;
    this.proofs = proofs;
    this.resumedFrom = resumedFrom;
    MeetingBoard board = HarmonicsPlugin.board();
    this.attempts = board.attemptsOf(name);
    this.repeated = Math.max(0, board.stepsBeforeLast(name) - resumedFrom);
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

  /**
   * What each task sent and received: {@code bytes_sent}, {@code socket_payload_sent} …, and under
   * {@code ends} over what ({@code bus}, {@code shm}, {@code tcp}, {@code grpc}).
   */
  public List<Report> traffic() {
    return traffic;
  }

  /** What the tasks of a secure job signed last, a line each; empty in another. */
  public List<String> proofs() {
    return proofs.stream().flatMap(proof -> proof.lines().lines()).toList();
  }

  /**
   * Writes the chains of a secure job, a file for each task, and answers them: {@code harmonics verify}
   * takes them all.
   */
  public List<Path> saveChains(Path folder) throws IOException {
    List<Path> files = new ArrayList<>();
    for (Proof proof : proofs) {
      files.add(Files.write(folder.resolve("part" + files.size() + ".chain"), proof.chain()));
    }
    return files;
  }

  /** The step from which the tasks that finished had gone on; 0 when they began anew. */
  public long resumedFrom() {
    return resumedFrom;
  }

  /** Steps that were done again after the last loss of an executor. */
  public long repeated() {
    return repeated;
  }

  /** The graph as bytes, with all shapes known. */
  byte[] graph() {
    return graph;
  }

  /** The job's name on the driver's board. */
  String name() {
    return name;
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
