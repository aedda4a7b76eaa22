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
      System.out.printf(
          "digits-mlp learns %s in %d epochs, four times; the last column is a digest of its"
              + " weights%n",
          arguments[0], EPOCHS);
      long start = System.nanoTime();
      String alone = alone(graph, images, labels);
      line("one process, no Spark", "", since(start), alone);
      String layers =
          tell("layers over 2 tasks", () -> spark.layerParallel(graph, job.parts(2)));
      tell("2 copies", () -> spark.dataParallel(graph, job.replicas(2)));
      tell("2 copies of 2 parts", () -> spark.hybrid(graph, job.parts(2).replicas(2)));
      explain(alone.equals(layers));
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

  @FunctionalInterface
  private interface Training {
    TrainingResult run() throws Exception;
  }

  private static double since(long start) {
    return (System.nanoTime() - start) / 1e9;
  }

  private static void line(String what, String right, double seconds, String digest) {
    System.out.printf("%-22s %12s %6.1f s  %.16s…%n", what, right, seconds, digest);
  }

  private static void explain(boolean same) {
    System.out.println(
        same
            ? "Cut into parts the network learns the same bits as in one process."
            : "Cut into parts the network learned other bits than in one process: that is a bug.");
    System.out.println(
        "Copies do not: each computes a share of every batch, and the sum of their gradients is\n"
            + "rounded in another order than one process rounds it. It is the same in every run.\n"
            + "The times are those of whole jobs, with starting the tasks.");
  }

  /** Answers the weights' digest. */
  private static String tell(String what, Training training) throws Exception {
    long start = System.nanoTime();
    TrainingResult result = training.run();
    double seconds = since(start);
    Set<String> over = new TreeSet<>();
    for (Report task : result.traffic()) {
      over.addAll(task.inner("ends").names());
    }
    String right = String.format("%.1f %% right", 100 * result.report().real("train_accuracy"));
    line(what, right, seconds, result.weightsDigest());
    System.out.printf(
        "%-22s in %d executors, tensors over %s%n",
        "", result.processes().size(), String.join(", ", over));
    return result.weightsDigest();
  }
}
