package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.HarmonicGraph;
import io.harmonics.NamedTensors;
import io.harmonics.Report;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Training in two executor processes, compared with a run of the native library here. */
class TrainingIT {
  private static final Path PROGRAM =
      Path.of(System.getProperty("harmonics.source"), "build-Release/harmonics");

  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalCluster.start(LocalCluster.TWO_EXECUTORS);
  }

  @BeforeEach
  void whole() {
    LocalCluster.whole();
  }

  private static TrainingResult layerParallel(TrainingJob job) throws Exception {
    try (HarmonicGraph graph = Digits.graph()) {
      return new HarmonicsSpark(session).layerParallel(graph, job);
    }
  }

  @Test
  void layersInTwoExecutorsGiveTheNativeWeights() throws Exception {
    TrainingResult result = layerParallel(Digits.job());
    assertEquals(Digits.nativeDigest(2), result.weightsDigest());
    assertEquals(2, result.processes().size());
    assertFalse(result.processes().contains(Long.toString(ProcessHandle.current().pid())));
    assertEquals(1, result.attempts());
    for (Report task : result.traffic()) {
      assertEquals(Set.of("shm"), task.inner("ends").names());
      assertEquals(0, task.number("socket_payload_sent"));
    }
  }

  /** That all ends were of one kind and took tensors from sockets, packed or as they are. */
  private static void checkSockets(TrainingResult result, String kind, boolean packed) {
    assertEquals(2, result.processes().size());
    assertEquals(1, result.attempts());
    for (Report task : result.traffic()) {
      assertEquals(Set.of(kind), task.inner("ends").names());
      long carried = task.number("socket_payload_received");
      long taken = task.number("bytes_received");
      assertTrue(carried > 0 && taken > 0, task.json());
      // What is taken has marks too, which are never packed: a thousandth.
      assertEquals(packed, carried < 0.98 * taken, task.json());
    }
  }

  @Test
  void layersOverGrpcGiveTheNativeWeights() throws Exception {
    TrainingResult result = layerParallel(Digits.job().carrier(Carrier.GRPC));
    assertEquals(Digits.nativeDigest(2), result.weightsDigest());
    checkSockets(result, "grpc", false);
  }

  @Test
  void layersOverCompressedTcpGiveTheNativeWeights() throws Exception {
    TrainingResult result = layerParallel(Digits.job().carrier(Carrier.TCP).compress(true));
    assertEquals(Digits.nativeDigest(2), result.weightsDigest());
    checkSockets(result, "tcp", true);
  }

  /** Tasks listen for a part and for a copy at one port; one of them cannot have its own. */
  @Test
  void copiesOverCompressedGrpcLearnTheSameWhenAPortIsTaken() throws Exception {
    try (HarmonicGraph graph = Digits.graph();
        ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      TrainingJob job =
          Digits.job()
              .set("micro_batches", 1)
              .parts(2)
              .replicas(2)
              .carrier(Carrier.GRPC)
              .compress(true)
              .basePort(taken.getLocalPort() - 1);
      TrainingResult spread = new HarmonicsSpark(session).hybrid(graph, job);
      assertEquals(NativeReplicas.digest(2, 2), spread.weightsDigest());
      checkSockets(spread, "grpc", true);
    }
  }

  @Test
  void theDriverReceivesNoTensorsButTheResult() throws Exception {
    // What is still to be told of the jobs before must not count.
    session.sparkContext().listenerBus().waitUntilEmpty();
    DriverTraffic traffic = new DriverTraffic();
    session.sparkContext().addSparkListener(traffic);
    TrainingResult result = layerParallel(Digits.job());
    session.sparkContext().listenerBus().waitUntilEmpty();
    session.sparkContext().removeSparkListener(traffic);
    long weights = NamedArray.size(result.arrays());
    long between =
        result.traffic().stream().mapToLong(task -> task.number("bytes_sent")).sum();
    TreeMap<Integer, Long> stages = new TreeMap<>(traffic.byStage());
    assertEquals(1, result.attempts());
    // The last two stages: that which trains, and that which answers.
    long answer = stages.pollLastEntry().getValue();
    long training = stages.pollLastEntry().getValue();
    assertTrue(training < 64 << 10, training + " bytes came from the tasks that train");
    assertTrue(answer < weights + (64 << 10), answer + " bytes came for " + weights);
    long told = HarmonicsPlugin.board().receivedFrom(result.name());
    assertTrue(told > 0 && told < 64 << 10, told + " bytes were told to the board");
    assertTrue(between > 10 * (training + told), between + " bytes went between the tasks");
  }

  private static List<float[]> pixels(int count) {
    List<float[]> rows = new ArrayList<>();
    for (int row = 0; row < count; row++) {
      float[] pixels = new float[64];
      for (int i = 0; i < 64; i++) {
        pixels[i] = (row * 31 + i * 7) % 17 / 16f;
      }
      rows.add(pixels);
    }
    return rows;
  }

  @Test
  void inferenceGivesWhatOneRuntimeGives() throws Exception {
    List<float[]> rows = pixels(700);
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingResult trained = layerParallel(Digits.job().epochs(1));
      JavaRDD<float[]> spread =
          JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(rows, 3);
      HarmonicsSpark spark = new HarmonicsSpark(session);
      List<float[]> expected = alone(graph, trained, rows);
      same(expected, spark.infer(graph, trained, spread).collect());
      same(expected, spark.inferLayerParallel(graph, trained, spread, 2, 1).collect());
      same(expected, spark.inferLayerParallel(graph, trained, spread, 2, 2).collect());
    }
  }

  private static List<float[]> alone(
      HarmonicGraph graph, TrainingResult trained, List<float[]> rows) throws Exception {
    Inference inference = HarmonicsSpark.inference(graph, trained.arrays());
    try (io.harmonics.CycleRuntime runtime = new io.harmonics.CycleRuntime(graph)) {
      inference.load(runtime);
      try (NamedTensors outputs =
          runtime.infer(Map.of("image", inference.batch(rows, Inference::putFloats)))) {
        return inference.split(outputs, rows.size());
      }
    }
  }

  private static void same(List<float[]> expected, List<float[]> outputs) {
    assertEquals(expected.size(), outputs.size());
    for (int row = 0; row < expected.size(); row++) {
      assertArrayEquals(expected.get(row), outputs.get(row), 1e-5f, "row " + row);
    }
  }

  @Test
  void anErrorDuringInferenceKeepsItsWords() throws Exception {
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingResult trained = layerParallel(Digits.job().epochs(1));
      List<float[]> rows = new ArrayList<>(pixels(600));
      rows.set(400, new float[3]);
      JavaRDD<float[]> spread =
          JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(rows, 2);
      Exception error =
          assertThrows(
              Exception.class,
              () ->
                  new HarmonicsSpark(session)
                      .inferLayerParallel(graph, trained, spread, 2, 1)
                      .collect());
      assertTrue(error.getMessage().contains("takes 64 numbers, a row holds 3"), error.getMessage());
    }
  }

  @Test
  void aRowOfWrongLengthEndsInferenceAtTheFirstAttempt() throws Exception {
    AtomicInteger attempts = new AtomicInteger();
    SparkListener counter =
        new SparkListener() {
          @Override
          public void onTaskStart(SparkListenerTaskStart start) {
            attempts.accumulateAndGet(1 + start.taskInfo().attemptNumber(), Math::max);
          }
        };
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingResult trained = layerParallel(Digits.job().epochs(1));
      session.sparkContext().addSparkListener(counter);
      JavaRDD<float[]> wrong =
          JavaSparkContext.fromSparkContext(session.sparkContext())
              .parallelize(List.of(new float[2]), 1);
      HarmonicsSpark spark = new HarmonicsSpark(session);
      Exception error =
          assertThrows(Exception.class, () -> spark.infer(graph, trained, wrong).collect());
      assertTrue(error.getMessage().contains("takes 64 numbers, a row holds 2"), error.getMessage());
      session.sparkContext().listenerBus().waitUntilEmpty();
      assertTrue(attempts.get() < 4, attempts + " attempts");
    } finally {
      session.sparkContext().removeSparkListener(counter);
    }
  }

  @Test
  void moreMembersThanTaskSlotsAreAnErrorAtOnce() {
    try (HarmonicGraph graph = Digits.graph()) {
      HarmonicsSpark spark = new HarmonicsSpark(session);
      String told =
          assertTimeout(
              Duration.ofSeconds(10),
              () ->
                  assertThrows(
                      IllegalStateException.class,
                      () -> spark.dataParallel(graph, Digits.job().replicas(7))))
              .getMessage();
      assertTrue(told.startsWith("7 tasks at a time are needed, the cluster has 4"), told);
      assertEquals(1, told.lines().count());
    }
  }

  @Test
  void fourReplicasLearnWhatTheNativeReductionGives() throws Exception {
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingJob job = Digits.job().set("micro_batches", 1).replicas(4);
      TrainingResult spread = new HarmonicsSpark(session).dataParallel(graph, job);
      assertEquals(2, spread.processes().size());
      assertEquals(NativeReplicas.digest(1, 4), spread.weightsDigest());
    }
  }

  @Test
  void copiesOfACutGraphLearnTheSame() throws Exception {
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingJob job = Digits.job().set("micro_batches", 1).parts(2).replicas(2);
      TrainingResult spread = new HarmonicsSpark(session).hybrid(graph, job);
      assertEquals(2, spread.processes().size());
      assertEquals(4, spread.traffic().size());
      assertEquals(NativeReplicas.digest(2, 2), spread.weightsDigest());
    }
  }

  /** Kills an executor, once, as soon as the file is there. */
  private static Thread killer(Path file) throws IOException {
    WatchService watch = file.getFileSystem().newWatchService();
    file.getParent().register(watch, StandardWatchEventKinds.ENTRY_CREATE);
    Thread killer =
        new Thread(
            () -> {
              try (watch) {
                while (!Files.exists(file)) {
                  WatchKey changes = watch.take();
                  changes.pollEvents();
                  changes.reset();
                }
              } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
              }
              ProcessHandle.current()
                  .descendants()
                  .filter(LocalCluster::isExecutor)
                  .findFirst()
                  .ifPresent(ProcessHandle::destroyForcibly);
            });
    killer.setDaemon(true);
    killer.start();
    return killer;
  }

  /** Trains 20 epochs with an executor killed after the first checkpoint. */
  private static TrainingResult trainedAndKilled(TrainingJob job, Path manifest) throws Exception {
    Thread killer = killer(manifest);
    TrainingResult result = layerParallel(job.epochs(20).checkpoint(manifest.toString(), 10));
    killer.join();
    assertEquals(Digits.nativeDigest(20), result.weightsDigest());
    assertEquals(2, result.attempts());
    // What the first attempt had done was not done again, but for the steps since a checkpoint.
    assertTrue(result.resumedFrom() > 0, "resumed from step " + result.resumedFrom());
    assertTrue(result.repeated() <= 10,
        result.repeated() + " steps were done twice, checkpoints every 10");
    return result;
  }

  @Test
  void aKilledExecutorCostsNoMoreThanTheLastSteps(@TempDir Path folder) throws Exception {
    trainedAndKilled(Digits.job(), folder.resolve("run.json"));
  }

  @Test
  void whatAnotherJobSavedIsNotGoneOnFrom(@TempDir Path folder) throws Exception {
    Path manifest = folder.resolve("run.json");
    TrainingJob job = Digits.job().epochs(1).checkpoint(manifest.toString(), 100_000);
    layerParallel(job);
    // Gone before the first step: so a second attempt would not find it either.
    try (WatchService watch = folder.getFileSystem().newWatchService()) {
      folder.register(watch, StandardWatchEventKinds.ENTRY_DELETE);
      TrainingResult result = layerParallel(job.epochs(4));
      assertEquals(0, result.resumedFrom());
      assertEquals(Digits.nativeDigest(4), result.weightsDigest());
      WatchKey changes = watch.poll(1, TimeUnit.MINUTES);
      assertTrue(
          changes != null
              && changes.pollEvents().stream()
                  .anyMatch(event -> event.context().equals(manifest.getFileName())),
          "the manifest of the job before was not deleted");
    }
  }

  @Test
  void proofsOfASecureJobVerify(@TempDir Path folder) throws Exception {
    Path keys = keys(folder);
    TrainingResult result = layerParallel(Digits.job().secure(keys.toString()));
    assertEquals(Digits.nativeDigest(2), result.weightsDigest());
    List<Path> chains = result.saveChains(folder.resolve("not/there/yet"));
    assertEquals(0, verified(keys, result, chains));
    byte[] chain = Files.readAllBytes(chains.get(1));
    chain[chain.length / 2] ^= 1;
    Files.write(chains.get(1), chain);
    assertEquals(1, verified(keys, result, chains));
  }

  @Test
  void theChainsOfASecureJobGoOnAfterAKilledExecutor(@TempDir Path folder) throws Exception {
    Path keys = keys(folder);
    TrainingJob job = Digits.job().secure(keys.toString());
    TrainingResult result = trainedAndKilled(job, folder.resolve("run.json"));
    // One run from the first step on: nothing was set aside.
    try (var files = Files.list(folder)) {
      assertTrue(files.noneMatch(file -> file.toString().contains(".aside")));
    }
    assertEquals(0, verified(keys, result, result.saveChains(folder)));
  }

  @Test
  void tasksKeepTheirSamplesAndChangeThem() throws Exception {
    TrainingJob job = Digits.job().cache(1 << 20);
    assertEquals(Digits.nativeDigest(2), layerParallel(job).weightsDigest());
    Map<String, Object> changes =
        Map.of("noise", 0.1, "mean", List.of(0.25), "deviation", List.of(0.5), "seed", 7);
    String changed = layerParallel(job.augment("image", changes)).weightsDigest();
    assertEquals(Digits.nativeDigest(2, changes), changed);
    assertNotEquals(Digits.nativeDigest(2), changed);
    String told =
        assertThrows(
                IllegalStateException.class,
                () -> layerParallel(job.augment("image", Map.of("turn", 90))))
            .getMessage();
    assertTrue(told.contains("unknown key 'turn'"), told);
    String unknown =
        assertThrows(
                IllegalArgumentException.class,
                () -> layerParallel(job.augment("picture", changes)))
            .getMessage();
    assertTrue(unknown.contains("no producer 'picture'; it has [image, label]"), unknown);
  }

  @Test
  void secureReplicasAreRefused() {
    IllegalArgumentException error =
        assertThrows(
            IllegalArgumentException.class,
            () -> {
              try (HarmonicGraph graph = Digits.graph()) {
                new HarmonicsSpark(session).dataParallel(graph, Digits.job().secure(""));
              }
            });
    assertTrue(error.getMessage().contains("replicas cannot be secure inside Spark tasks"), error.getMessage());
  }

  /** A folder with one key. */
  private static Path keys(Path folder) throws Exception {
    Assumptions.assumeTrue(Files.exists(PROGRAM), "the command line was not built");
    Path keys = Files.createDirectory(folder.resolve("keys"));
    assertEquals(0, harmonics("keys", "new", "spark", "--keys", keys.toString()));
    return keys;
  }

  /** What {@code harmonics verify} says to the chains and the lines of both tasks. */
  private static int verified(Path keys, TrainingResult result, List<Path> chains)
      throws Exception {
    assertEquals(2, chains.size());
    assertEquals(2, result.proofs().size());
    List<String> verify = new ArrayList<>(List.of("verify", "--keys", keys.toString()));
    chains.forEach(chain -> verify.add(chain.toString()));
    result.proofs().forEach(line -> verify.addAll(List.of("--line", line)));
    return harmonics(verify.toArray(String[]::new));
  }

  private static int harmonics(String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(PROGRAM.toString()));
    command.addAll(List.of(arguments));
    Process process = new ProcessBuilder(command).inheritIO().start();
    return process.waitFor();
  }

  @Test
  void anErrorInOneTaskKeepsItsWords() {
    IllegalStateException error =
        assertThrows(
            IllegalStateException.class,
            () -> layerParallel(Digits.job().bind("label", "csv:/no/such/file.csv")));
    assertTrue(error.getMessage().contains("/no/such/file.csv"), error.getMessage());
  }

  @Test
  void anErrorInTheMiddleEndsTheOthersToo(@TempDir Path folder) throws Exception {
    Path broken = folder.resolve("broken.csv");
    List<String> lines = new ArrayList<>(Files.readAllLines(Digits.FILE));
    lines.set(1500, lines.get(1500).replaceAll("[^,]*$", "seven"));
    Files.write(broken, lines);
    IllegalStateException error =
        assertThrows(
            IllegalStateException.class,
            () -> layerParallel(Digits.job().shuffle(false).bind("label", Digits.labels(broken))));
    assertTrue(error.getMessage().startsWith("task 1: "), error.getMessage());
    assertTrue(error.getMessage().contains("line 1501"), error.getMessage());
    assertTrue(error.getMessage().contains("seven"), error.getMessage());
  }

  @Test
  void aBackendThatIsNotThereIsAnErrorWhenStrict() {
    Deployment fpgaOnly = new Deployment().backend("cpu").part(1, "gpu").strict(true);
    IllegalStateException error =
        assertThrows(
            IllegalStateException.class, () -> layerParallel(Digits.job().deploy(fpgaOnly)));
    assertTrue(error.getMessage().startsWith("task 1: "), error.getMessage());
  }
}
