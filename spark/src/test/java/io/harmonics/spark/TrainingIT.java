package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.BatchProducer;
import io.harmonics.CycleRuntime;
import io.harmonics.HarmonicGraph;
import io.harmonics.Producer;
import io.harmonics.ShuffleProducer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Training in two executor processes, compared with a run of the native library here. */
class TrainingIT {
  private static final String DATA =
      Path.of(System.getProperty("harmonics.source"), "examples/data/digits.csv").toString();
  private static final String IMAGES = "csv:" + DATA + "?columns=0-63&scale=0.0625";
  private static final String LABELS = "csv:" + DATA + "?columns=64&dtype=int64";
  private static final Map<String, Object> SETTINGS =
      Map.of("lr", 0.005, "seed", 3, "threads", 1, "micro_batches", 2);

  private static SparkSession session;
  private static String expected;

  @BeforeAll
  static void start() {
    session = LocalCluster.start("local-cluster[2,1,1024]");
    try (HarmonicGraph graph = HarmonicGraph.zoo("digits-mlp");
        CycleRuntime runtime = new CycleRuntime(graph, SETTINGS)) {
      runtime.bindProducer("image", batches(IMAGES));
      runtime.bindProducer("label", batches(LABELS));
      runtime.fit(2);
      expected = runtime.weightsDigest();
    }
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private static Producer batches(String source) {
    return new BatchProducer(new ShuffleProducer(Producer.open(source, Path.of("."))), 32);
  }

  private static TrainingJob job() {
    TrainingJob job = new TrainingJob().bind("image", IMAGES).bind("label", LABELS).epochs(2);
    SETTINGS.forEach(job::set);
    return job;
  }

  private static TrainingResult layerParallel(TrainingJob job) throws Exception {
    try (HarmonicGraph graph = HarmonicGraph.zoo("digits-mlp")) {
      return new HarmonicsSpark(session).layerParallel(graph, job);
    }
  }

  @Test
  void layersInTwoExecutorsGiveTheNativeWeights() throws Exception {
    TrainingResult result = layerParallel(job());
    assertEquals(expected, result.weightsDigest());
    assertEquals(2, result.processes().size());
    assertEquals(1, result.attempts());
  }

  @Test
  void inferenceGivesWhatOneRuntimeGives() throws Exception {
    List<float[]> rows = new ArrayList<>();
    for (int row = 0; row < 300; row++) {
      float[] pixels = new float[64];
      for (int i = 0; i < 64; i++) {
        pixels[i] = (row * 31 + i * 7) % 17 / 16f;
      }
      rows.add(pixels);
    }
    try (HarmonicGraph graph = HarmonicGraph.zoo("digits-mlp")) {
      TrainingResult trained = layerParallel(job().epochs(1));
      JavaRDD<float[]> spread =
          JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(rows, 3);
      List<float[]> outputs = new HarmonicsSpark(session).infer(graph, trained, spread).collect();
      assertEquals(rows.size(), outputs.size());
      Inference alone =
          new Inference(
              graph.encode(), new ArrayList<>(trained.arrays()), "image", "prediction", 100);
      var expectedRows = alone.over(rows.iterator(), row -> row, (row, output) -> output);
      for (float[] output : outputs) {
        assertArrayEquals(expectedRows.next(), output, 1e-6f);
      }
    }
  }

  @Test
  void portsThatAreTakenAreNoTrouble() throws Exception {
    try (var first = new java.net.ServerSocket(41900);
        var second = new java.net.ServerSocket(41901)) {
      TrainingResult result = layerParallel(job().carrier(Carrier.TCP).basePort(41900));
      assertEquals(expected, result.weightsDigest());
      assertTrue(first.isBound() && second.isBound());
    }
  }

  @Test
  void replicasLearnWhatOneProcessLearns() throws Exception {
    try (HarmonicGraph graph = HarmonicGraph.zoo("digits-mlp")) {
      TrainingResult once = new HarmonicsSpark(session).dataParallel(graph, job().replicas(2));
      TrainingResult again = new HarmonicsSpark(session).dataParallel(graph, job().replicas(2));
      assertEquals(once.weightsDigest(), again.weightsDigest());
      assertEquals(2, once.processes().size());
    }
  }

  @Test
  void aKilledExecutorCostsNoMoreThanTheLastSteps(@TempDir Path folder) throws Exception {
    Path manifest = folder.resolve("run.json");
    Thread killer =
        new Thread(
            () -> {
              while (!Files.exists(manifest)) {
                Thread.onSpinWait();
              }
              ProcessHandle.current()
                  .descendants()
                  .filter(LocalCluster::isExecutor)
                  .findFirst()
                  .ifPresent(ProcessHandle::destroyForcibly);
            });
    killer.setDaemon(true);
    killer.start();
    TrainingResult result = layerParallel(job().epochs(20).checkpoint(manifest.toString(), 10));
    killer.join();
    assertEquals(native20(), result.weightsDigest());
    assertEquals(2, result.attempts());
  }

  private static String native20() {
    try (HarmonicGraph graph = HarmonicGraph.zoo("digits-mlp");
        CycleRuntime runtime = new CycleRuntime(graph, SETTINGS)) {
      runtime.bindProducer("image", batches(IMAGES));
      runtime.bindProducer("label", batches(LABELS));
      runtime.fit(20);
      return runtime.weightsDigest();
    }
  }

  @Test
  void anErrorInOneTaskKeepsItsWords() {
    IllegalStateException error =
        assertThrows(
            IllegalStateException.class,
            () -> layerParallel(job().bind("label", "csv:/no/such/file.csv")));
    assertTrue(error.getMessage().contains("/no/such/file.csv"), error.getMessage());
  }
}
