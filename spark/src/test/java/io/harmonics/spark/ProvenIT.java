package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.CycleRuntime;
import io.harmonics.HarmonicGraph;
import io.harmonics.NamedTensors;
import io.harmonics.Tensor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An int8 network whose parts prove what they compute, in two executor processes. */
class ProvenIT {
  private static final Path SOURCE = Path.of(System.getProperty("harmonics.source"));
  private static final Path PROGRAM = SOURCE.resolve("build-Release/harmonics");
  private static final Path DIGITS = SOURCE.resolve("examples/digits.harp");
  private static final int ROWS = 20;
  private static final int BATCH = 8;
  /** More than one executor has slots. */
  private static final int PARTS = 3;
  private static final int WIDTH = 64;

  private static SparkSession session;

  @TempDir Path folder;
  private Path keys;
  private Path network;

  @BeforeAll
  static void start() {
    session = LocalCluster.start(LocalCluster.TWO_EXECUTORS);
  }

  @BeforeEach
  void quantized() throws Exception {
    Assumptions.assumeTrue(Files.exists(PROGRAM), "the command line was not built");
    LocalCluster.whole();
    keys = Files.createDirectory(folder.resolve("keys"));
    network = folder.resolve("digits.int8");
    String weights = folder.resolve("digits.safetensors").toString();
    assertEquals(0, harmonics("keys", "new", "spark", "--keys", keys.toString()));
    assertEquals(
        0,
        harmonics("train", DIGITS.toString(), "--epochs", "1", "--threads", "1", "--checkpoint",
            weights, "--output", "quiet"));
    assertEquals(
        0,
        harmonics("quantize", DIGITS.toString(), "--weights", weights, "--out",
            network.toString()));
  }

  @Test
  void proofsOfTwoExecutorsVerify() throws Exception {
    ProvenOutputs proven = proven(job());
    List<float[]> expected = alone();
    assertEquals(ROWS, proven.rows().size());
    for (int row = 0; row < ROWS; row++) {
      assertArrayEquals(expected.get(row), proven.rows().get(row), 0.0F, "row " + row);
    }
    assertEquals(2, proven.processes().size());
    assertEquals(PARTS, proven.proofs().size());
    List<Path> chains = proven.saveChains(folder.resolve("chains"));
    assertEquals(PARTS, chains.size());
    String said = verified(proven, chains);
    // Three parts and three batches.
    assertTrue(said.contains("9 zero-knowledge proof(s) hold"), said);
    byte[] chain = Files.readAllBytes(chains.get(0));
    chain[chain.length / 2] ^= 1;
    Files.write(chains.get(0), chain);
    assertEquals("", verified(proven, chains));
  }

  @Test
  void whatCannotBeProvenIsRefused() {
    IllegalArgumentException plain =
        assertThrows(
            IllegalArgumentException.class, () -> proven(new TrainingJob().batchSize(BATCH)));
    assertTrue(plain.getMessage().contains("call secure(keys)"), plain.getMessage());
    // A dropout alone in its part.
    IllegalStateException empty =
        assertThrows(IllegalStateException.class, () -> proven(job().parts(4)));
    assertTrue(
        empty.getMessage().contains("has none of the layers that can be proven"),
        empty.getMessage());
  }

  private TrainingJob job() {
    return new TrainingJob().parts(PARTS).batchSize(BATCH).secure(keys.toString());
  }

  private ProvenOutputs proven(TrainingJob job) throws Exception {
    JavaRDD<float[]> rows =
        JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(images(), 3).cache();
    try (HarmonicGraph graph = HarmonicGraph.load(DIGITS)) {
      return new HarmonicsSpark(session)
          .inferProven(graph, Files.readAllBytes(network), rows, job);
    }
  }

  private static List<float[]> images() throws Exception {
    List<float[]> images = new ArrayList<>();
    for (String line : Files.readAllLines(Digits.FILE).subList(0, ROWS)) {
      String[] fields = line.split(",");
      float[] image = new float[WIDTH];
      for (int i = 0; i < WIDTH; i++) {
        image[i] = Float.parseFloat(fields[i]) * 0.0625F;
      }
      images.add(image);
    }
    return images;
  }

  /** What one runtime here makes of the rows with the same network. */
  private List<float[]> alone() throws Exception {
    float[] all = new float[ROWS * WIDTH];
    List<float[]> images = images();
    for (int row = 0; row < ROWS; row++) {
      System.arraycopy(images.get(row), 0, all, row * WIDTH, WIDTH);
    }
    Map<String, Object> settings =
        Map.of("secure", true, "secure_keys", keys.toString(), "secure_proofs", network.toString());
    try (HarmonicGraph graph = HarmonicGraph.load(DIGITS);
        CycleRuntime runtime = new CycleRuntime(graph, settings);
        NamedTensors outputs =
            runtime.infer(Map.of("image", Tensor.of(new long[] {ROWS, WIDTH}, all)))) {
      float[] made = outputs.get("prediction").floats();
      int width = made.length / ROWS;
      List<float[]> rows = new ArrayList<>();
      for (int row = 0; row < ROWS; row++) {
        rows.add(Arrays.copyOfRange(made, row * width, (row + 1) * width));
      }
      return rows;
    }
  }

  /** What {@code harmonics verify} says to chains and lines; nothing when they do not verify. */
  private String verified(ProvenOutputs proven, List<Path> chains) throws Exception {
    List<String> command =
        new ArrayList<>(List.of(PROGRAM.toString(), "verify", "--keys", keys.toString()));
    chains.forEach(chain -> command.add(chain.toString()));
    proven.proofs().forEach(line -> command.addAll(List.of("--line", line)));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes());
    return process.waitFor() == 0 ? said : "";
  }

  private static int harmonics(String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(PROGRAM.toString()));
    command.addAll(List.of(arguments));
    return new ProcessBuilder(command).inheritIO().start().waitFor();
  }
}
