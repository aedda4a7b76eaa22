package io.harmonics.spark;

import io.harmonics.HarmonicGraph;
import io.harmonics.Report;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;

/**
 * Trains and runs graphs inside the tasks of a Spark session, which must have been started with
 * {@code spark.plugins=io.harmonics.spark.HarmonicsPlugin}.
 *
 * <p>A training job's tasks run at the same time, so that the cluster needs as many free task slots
 * as the job has parts times replicas. When an executor dies, Spark starts the tasks again and they go
 * on from the job's checkpoint. An error in a task is an {@link IllegalStateException} with the
 * task's words.
 */
public final class HarmonicsSpark {
  /** Rows that a task computes at once. */
  private static final int INFERENCE_BATCH = 256;

  private final JavaSparkContext context;

  public HarmonicsSpark(SparkSession session) {
    this.context = JavaSparkContext.fromSparkContext(session.sparkContext());
  }

  /** One copy of the graph, its layers over {@code job.parts} tasks. */
  public TrainingResult layerParallel(HarmonicGraph graph, TrainingJob job) throws Exception {
    return train(graph, job, job.parts(), 1);
  }

  /** {@code job.replicas} copies of the graph, each of which computes a share of every batch. */
  public TrainingResult dataParallel(HarmonicGraph graph, TrainingJob job) throws Exception {
    return train(graph, job, 1, job.replicas());
  }

  /** {@code job.replicas} copies of the graph, each over {@code job.parts} tasks. */
  public TrainingResult hybrid(HarmonicGraph graph, TrainingJob job) throws Exception {
    return train(graph, job, job.parts(), job.replicas());
  }

  /**
   * The outputs of a trained graph for every row of {@code rows}, in their order: each task has the
   * whole graph and computes the rows of its partition.
   */
  public JavaRDD<float[]> infer(HarmonicGraph graph, TrainingResult trained, JavaRDD<float[]> rows) {
    Inference inference =
        new Inference(
            graph.encode(),
            new ArrayList<>(trained.arrays()),
            graph.producers().get(0),
            graph.consumers().get(0),
            INFERENCE_BATCH);
    Broadcast<Inference> shared = context.broadcast(inference);
    return rows.mapPartitions(
        each -> shared.value().over(each, row -> row, (row, output) -> output));
  }

  private TrainingResult train(HarmonicGraph graph, TrainingJob job, int parts, int replicas)
      throws Exception {
    Layout layout = layout(graph, job, parts, replicas);
    String name = "harmonics-" + UUID.randomUUID();
    Broadcast<Layout> shared = context.broadcast(layout);
    try {
      List<TrainingTask.Answer> answers =
          Gang.run(
              name,
              seats(layout.members()),
              (member, rows) -> new TrainingTask(member, shared.value(), job).run());
      return result(name, answers, layout);
    } finally {
      shared.destroy();
    }
  }

  private static Layout layout(HarmonicGraph graph, TrainingJob job, int parts, int replicas)
      throws Exception {
    if (graph.resolved()) {
      return Layout.of(graph, parts, replicas);
    }
    try (TaskData data = new TaskData(job);
        HarmonicGraph resolved = data.resolve(graph)) {
      return Layout.of(resolved, parts, replicas);
    }
  }

  private JavaRDD<Integer> seats(int count) {
    return context.parallelize(IntStream.range(0, count).boxed().toList(), count);
  }

  private static TrainingResult result(
      String name, List<TrainingTask.Answer> answers, Layout layout) {
    Map<String, NamedArray> weights = new TreeMap<>();
    Set<String> processes = new LinkedHashSet<>();
    for (TrainingTask.Answer answer : answers) {
      processes.add(answer.process());
      answer.weights().forEach(array -> weights.put(array.name(), array));
    }
    Report report = new Report(answers.get(layout.parts() - 1).report());
    return new TrainingResult(
        report, weights, processes, HarmonicsPlugin.board().attemptsOf(name));
  }
}
