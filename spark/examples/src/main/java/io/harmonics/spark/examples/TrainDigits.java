package io.harmonics.spark.examples;

import io.harmonics.BatchProducer;
import io.harmonics.CycleRuntime;
import io.harmonics.HarmonicGraph;
import io.harmonics.Producer;
import io.harmonics.Report;
import io.harmonics.ShuffleProducer;
import io.harmonics.spark.HarmonicsSpark;
import io.harmonics.spark.TrainingJob;
import io.harmonics.spark.TrainingResult;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.SparkSession;

/**
 * Learns to read handwritten digits inside Spark tasks in three ways, and in this process alone:
 * {@code TrainDigits digits.csv}. The session comes from spark-submit, or from the system
 * properties
 * {@code spark.master} and {@code spark.jars} (scripts/spark-demo.sh).
 */
public final class TrainDigits {
  private static final long EPOCHS = 10;
  private static final Map<String, Object> SETTINGS = Map.of("lr", 0.005, "seed", 3, "threads", 1);

  private TrainDigits() {}

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 1) {
      System.err.println("usage: TrainDigits digits.csv");
      System.exit(2);
    }
    String images = "csv:" + arguments[0] + "?columns=0-63&scale=0.0625";
    String labels = "csv:" + arguments[0] + "?columns=64&dtype=int64";
    SparkSession session =
        SparkSession.builder()
            .appName("digits")
            .config("spark.plugins", "io.harmonics.spark.HarmonicsPlugin")
            .getOrCreate();
    TrainingJob job = new TrainingJob().bind("image", images).bind("label", labels).epochs(EPOCHS);
    SETTINGS.forEach(job::set);
    try (HarmonicGraph graph = HarmonicGraph.zoo("digits-mlp")) {
      HarmonicsSpark spark = new HarmonicsSpark(session);
      String alone = alone(graph, images, labels);
      System.out.printf("%-24s %-14s %s%n", "one process, no Spark", "", alone);
      tell("layers over 2 tasks", spark.layerParallel(graph, job.parts(2)));
      tell("2 copies", spark.dataParallel(graph, job.replicas(2)));
      tell("2 copies of 2 parts", spark.hybrid(graph, job.parts(2).replicas(2)));
    } finally {
      session.stop();
    }
  }

  /** The weights' digest of a run in this process. */
  private static String alone(HarmonicGraph graph, String images, String labels) {
    try (CycleRuntime runtime = new CycleRuntime(graph, SETTINGS)) {
      runtime.bindProducer("image", batches(images));
      runtime.bindProducer("label", batches(labels));
      runtime.fit(EPOCHS);
      return runtime.weightsDigest();
    }
  }

  private static Producer batches(String source) {
    Producer samples = Producer.open(source, Path.of("."));
    return new BatchProducer(new ShuffleProducer(samples), 32);
  }

  private static void tell(String what, TrainingResult result) {
    Set<String> over = new TreeSet<>();
    for (Report task : result.traffic()) {
      over.addAll(task.inner("ends").names());
    }
    System.out.printf(
        "%-24s %-14s %s%n",
        what,
        String.format("%.1f %% right", 100 * result.report().real("train_accuracy")),
        result.weightsDigest());
    System.out.printf(
        "%-24s in %d executors, tensors over %s%n", "", result.processes().size(), over);
  }
}
