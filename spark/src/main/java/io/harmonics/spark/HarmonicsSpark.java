package io.harmonics.spark;

import io.harmonics.HarmonicGraph;
import io.harmonics.Report;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import scala.Tuple2;

/**
 * Trains and runs graphs inside the tasks of a Spark session, which must have been started with
 * {@code spark.plugins=io.harmonics.spark.HarmonicsPlugin}.
 *
 * <p>A training job's tasks run at the same time, so that the cluster needs as many task slots as
 * the job has parts times replicas; a cluster with fewer is an error at once. When an executor dies,
 * Spark starts the tasks again and they go on from the job's checkpoint. An error in a task is an
 * {@link IllegalStateException} with the task's words.
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
    return train(graph, job, job.parts, 1);
  }

  /** {@code job.replicas} copies of the graph, each of which computes a share of every batch. */
  public TrainingResult dataParallel(HarmonicGraph graph, TrainingJob job) throws Exception {
    return train(graph, job, 1, job.replicas);
  }

  /** {@code job.replicas} copies of the graph, each over {@code job.parts} tasks. */
  public TrainingResult hybrid(HarmonicGraph graph, TrainingJob job) throws Exception {
    return train(graph, job, job.parts, job.replicas);
  }

  /**
   * The outputs of a trained graph for every row of {@code rows}, in their order: each task has the
   * whole graph and computes the rows of its partition.
   */
  public JavaRDD<float[]> infer(
      HarmonicGraph graph, TrainingResult trained, JavaRDD<float[]> rows) {
    Broadcast<Inference> shared = context.broadcast(inference(graph, trained.arrays()));
    return rows.mapPartitions(
        each -> shared.value().over(each, Inference::putFloats, (row, output) -> output));
  }

  /**
   * The same with the layers of the graph over {@code parts} tasks, {@code copies} times: for a
   * graph that is too large for one executor. The tasks run at the same time.
   */
  public JavaRDD<float[]> inferLayerParallel(
      HarmonicGraph graph, TrainingResult trained, JavaRDD<float[]> rows, int parts, int copies) {
    long count = rows.count();
    if (count == 0) {
      return rows;
    }
    Layout layout = Layout.of(graph, parts, copies);
    Broadcast<Layout> places = context.broadcast(layout);
    Broadcast<Inference> shared = context.broadcast(inference(graph, trained.arrays()));
    JavaPairRDD<Long, float[]> numbered =
        rows.zipWithIndex()
            .mapToPair(Tuple2::swap)
            .repartitionAndSortWithinPartitions(
                new PartInference.Stretches(count, copies, layout.parts()));
    PartInference.Stretches stretches = new PartInference.Stretches(count, copies, 1);
    JavaRDD<Gang.Outcome<Tuple2<Long, float[]>>> outputs =
        Gang.outcomes(
            "harmonics-" + UUID.randomUUID(),
            PlacedRdd.of(
                JavaRDD.fromRDD(numbered.rdd(), numbered.rdd().elementClassTag()), layout),
            (GangMember member, Iterator<Tuple2<Long, float[]>> each) ->
                new PartInference(member, places.value(), shared.value(), stretches, each));
    // An error is keyed as the first row, so that it comes through the shuffle too.
    return outputs
        .mapToPair(
            outcome ->
                new Tuple2<>(outcome.error() == null ? outcome.result()._1() : 0L, outcome))
        .repartitionAndSortWithinPartitions(stretches)
        .values()
        .map(outcome -> outcome.get()._2());
  }

  /**
   * The outputs of an int8 network, whose file is {@code network} ({@code harmonics quantize}), for
   * every row in order, with proofs: the layers are over {@code job.parts} tasks that run at the
   * same time, each of which proves with zero knowledge what it computes of every {@code
   * job.batchSize} rows, sends the proof with its tensor, checks the proof of what it receives, and
   * keeps a chain. An action: outputs and chains come to the driver. The job must be secure.
   */
  public ProvenOutputs inferProven(
      HarmonicGraph graph, byte[] network, JavaRDD<float[]> rows, TrainingJob job) {
    if (job.secureKeys == null) {
      throw new IllegalArgumentException(
          "proofs are kept in the chains of a secure job: call secure(keys)");
    }
    HarmonicsPlugin.board(); // an error before rows are counted
    long count = rows.count();
    if (count == 0) {
      return new ProvenOutputs(List.of(), List.of(), Set.of());
    }
    Layout layout = Layout.of(graph, job.parts, 1);
    Inference inference =
        inference(graph, List.of()).inBatchesOf(Math.toIntExact(job.batchSize));
    Broadcast<ProvenTask.Shared> shared =
        context.broadcast(new ProvenTask.Shared(layout, job, inference, network, count));
    try {
      JavaPairRDD<Long, float[]> seats =
          rows.zipWithIndex()
              .mapToPair(Tuple2::swap)
              .repartitionAndSortWithinPartitions(
                  new PartInference.Stretches(count, 1, layout.parts()));
      return provenOutputs(
          Gang.run(
              "harmonics-" + UUID.randomUUID(),
              PlacedRdd.of(JavaRDD.fromRDD(seats.rdd(), seats.rdd().elementClassTag()), layout),
              (GangMember member, Iterator<Tuple2<Long, float[]>> each) ->
                  new ProvenTask(member, shared.value()).run(each)));
    } finally {
      shared.destroy();
    }
  }

  private static ProvenOutputs provenOutputs(List<ProvenTask.Answer> answers) {
    List<float[]> rows = new ArrayList<>();
    List<Proof> proofs = new ArrayList<>();
    Set<String> processes = new LinkedHashSet<>();
    for (ProvenTask.Answer answer : answers) {
      rows.addAll(answer.outputs());
      proofs.add(answer.proof());
      processes.add(answer.process());
    }
    return new ProvenOutputs(rows, proofs, processes);
  }

  /**
   * The sum of vectors of equal length, natively up and down a tree of tasks, which run at the same
   * time; by {@code treeAggregate} in a session without the plugin. The RDD may have more
   * partitions than the cluster has task slots: they are then added up one after another first. The
   * same partitions on as many slots give the same bits.
   */
  public float[] sum(JavaRDD<float[]> vectors) {
    return TreeSum.of(vectors);
  }

  /** What tasks need to compute outputs with these weights. */
  static Inference inference(HarmonicGraph graph, List<NamedArray> weights) {
    String input = graph.producers().get(0);
    long[] shape = graph.shape(input);
    if (shape == null) {
      throw new IllegalArgumentException(
          "producer '" + input + "' has no shape yet: give it one, or resolve the graph first");
    }
    Samples samples = new Samples(input, new ArrayList<>(List.of(0)), graph.dtype(input), shape);
    return new Inference(
        graph.encode(),
        new ArrayList<>(weights),
        samples,
        graph.consumers().get(0),
        INFERENCE_BATCH);
  }

  private TrainingResult train(HarmonicGraph graph, TrainingJob job, int parts, int replicas)
      throws Exception {
    if (job.secureKeys != null && replicas > 1) {
      throw new IllegalArgumentException(
          "replicas cannot be secure inside Spark tasks: leave secure off, train with"
              + " layerParallel, or use 'harmonics train --replicas N --secure'");
    }
    expectProducers(graph, job.sources.keySet());
    expectProducers(graph, job.columns.keySet());
    expectProducers(graph, job.changes.keySet());
    if (job.deployment != null) {
      job.deployment.check(parts);
    }
    HarmonicsPlugin.board(); // an error before data is read
    Slots.need(context.sc(), Math.multiplyExact(parts, replicas));
    FrameRows frame = FrameRows.of(job);
    try (HarmonicGraph whole = resolved(graph, job, frame)) {
      Layout layout = Layout.of(whole, parts, replicas);
      FrameRows.Plan plan = frame == null ? null : frame.plan(whole);
      JavaRDD<Tuple2<Long, byte[]>> seats =
          frame == null
              ? context.parallelize(List.of(), layout.members())
              : frame.seats(layout, plan);
      return train(whole, layout, job, plan, PlacedRdd.of(seats, layout));
    }
  }

  private TrainingResult train(
      HarmonicGraph whole,
      Layout layout,
      TrainingJob job,
      FrameRows.Plan plan,
      JavaRDD<Tuple2<Long, byte[]>> seats) {
    String name = "harmonics-" + UUID.randomUUID();
    Broadcast<Layout> shared = context.broadcast(layout);
    try {
      List<TrainingTask.Answer> answers =
          Gang.run(
              name,
              seats,
              (GangMember member, Iterator<Tuple2<Long, byte[]>> rows) ->
                  new TrainingTask(member, shared.value(), job, plan).run(rows));
      return result(name, answers, whole, layout);
    } finally {
      shared.destroy();
    }
  }

  private static void expectProducers(HarmonicGraph graph, Set<String> named) {
    for (String name : named) {
      if (!graph.producers().contains(name)) {
        throw new IllegalArgumentException(
            "the graph has no producer '" + name + "'; it has " + graph.producers());
      }
    }
  }

  /** The graph as a new one with all shapes known. */
  private static HarmonicGraph resolved(HarmonicGraph graph, TrainingJob job, FrameRows frame)
      throws Exception {
    if (graph.resolved()) {
      return HarmonicGraph.decode(graph.encode());
    }
    try (TaskData data = new TaskData(job, null)) {
      return frame == null ? data.resolve(graph) : frame.resolve(graph);
    }
  }

  private static TrainingResult result(
      String name, List<TrainingTask.Answer> answers, HarmonicGraph whole, Layout layout) {
    Map<String, NamedArray> weights = new TreeMap<>();
    Set<String> processes = new LinkedHashSet<>();
    List<Report> traffic = new ArrayList<>();
    List<Proof> proofs = new ArrayList<>();
    for (TrainingTask.Answer answer : answers) {
      processes.add(answer.process());
      traffic.add(new Report(answer.traffic()));
      if (answer.proof() != null) {
        proofs.add(answer.proof());
      }
      answer.weights().forEach(array -> weights.put(array.name(), array));
    }
    Report report = new Report(answers.get(layout.parts() - 1).report());
    MeetingBoard board = HarmonicsPlugin.board();
    long start = answers.get(0).start();
    long repeated = Math.max(0, board.stepsBeforeLast(name) - start);
    TrainingResult.Run run =
        new TrainingResult.Run(
            name, processes, traffic, proofs, start, board.attemptsOf(name), repeated);
    return new TrainingResult(whole.encode(), report, weights, run);
  }
}
