package io.harmonics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class BindingsTest {
  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private static String alone(long epochs) {
    try (HarmonicGraph graph = TestData.graph();
        CycleRuntime runtime = new CycleRuntime(graph, TestData.SETTINGS)) {
      TestData.bind(graph, runtime);
      Report report = runtime.fit(epochs);
      assertEquals(8 * epochs, report.number("steps"));
      return runtime.weightsDigest();
    }
  }

  @Test
  void graphsTravelAsBytesAndComeApart() {
    try (HarmonicGraph graph = TestData.graph();
        HarmonicGraph again = HarmonicGraph.decode(graph.encode())) {
      assertArrayEquals(graph.encode(), again.encode());
      assertEquals("corners", again.name());
      assertEquals(List.of("x", "label"), again.producers());
      assertEquals(List.of("prediction"), again.consumers());
      assertTrue(again.learns());
      List<HarmonicGraph> parts = graph.partition(2);
      assertEquals(parts.get(0).leaving(), parts.get(1).entering());
      assertEquals(3, parts.get(0).layerCount() + parts.get(1).layerCount());
    }
  }

  @Test
  void aRuntimeLearns() {
    try (HarmonicGraph graph = TestData.graph();
        CycleRuntime runtime = new CycleRuntime(graph, TestData.SETTINGS)) {
      TestData.bind(graph, runtime);
      Report report = runtime.fit(20);
      assertEquals(1.0, report.real("train_accuracy"));
      Tensor corner = Tensor.of(new long[] {1, 2}, 1.0f, 0.0f);
      try (NamedTensors out = runtime.infer(Map.of("x", corner))) {
        float[] logits = out.get("prediction").floats();
        assertArrayEquals(new long[] {1, 3}, out.get("prediction").shape());
        assertTrue(logits[0] > logits[1] && logits[0] > logits[2]);
      }
    }
  }

  @Test
  void weightsAreSavedAndLoaded(@TempDir Path folder) {
    Path file = folder.resolve("some.safetensors");
    Map<String, Tensor> weights =
        Map.of("a", Tensor.of(new long[] {2, 1}, 1f, 2f), "b", Tensor.of(new long[] {1}, 3f));
    Weights.save(file, weights);
    try (NamedTensors loaded = Weights.load(file)) {
      assertEquals(Weights.digest(weights), Weights.digest(loaded.asMap()));
      assertArrayEquals(new long[] {2, 1}, loaded.get("a").shape());
    }
    HarmonicsException error =
        assertThrows(HarmonicsException.class, () -> Weights.load(folder.resolve("none")));
    assertTrue(error.getMessage().contains("none"), error.getMessage());
  }

  @Test
  void partsInOneProcessGiveTheSameWeights() {
    try (HarmonicGraph graph = TestData.graph();
        DistributedScheduler scheduler =
            new DistributedScheduler(graph.partition(3), TestData.SETTINGS)) {
      TestData.bind(graph, scheduler);
      scheduler.fit(2);
      assertEquals(alone(2), scheduler.weightsDigest());
    }
  }

  private static int freePort() throws Exception {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  @Test
  void remotePartsGiveTheSameWeights() throws Exception {
    int port = freePort();
    Map<String, byte[]> weights = new HashMap<>();
    ExecutorService pool = Executors.newFixedThreadPool(2);
    try (HarmonicGraph graph = TestData.graph()) {
      List<Future<Map<String, byte[]>>> runs = new ArrayList<>();
      for (HarmonicGraph part : graph.partition(2)) {
        runs.add(pool.submit(() -> trainPart(part, port)));
      }
      for (Future<Map<String, byte[]>> run : runs) {
        weights.putAll(run.get(PATIENCE.toSeconds(), TimeUnit.SECONDS));
      }
    } finally {
      pool.shutdownNow();
    }
    try (HarmonicGraph graph = TestData.graph();
        CycleRuntime runtime = new CycleRuntime(graph, TestData.SETTINGS)) {
      TestData.bind(graph, runtime);
      runtime.fit(2);
      Map<String, byte[]> expected = bytes(runtime);
      assertEquals(expected.keySet(), weights.keySet());
      expected.forEach((name, values) -> assertArrayEquals(values, weights.get(name), name));
    }
  }

  private static Map<String, byte[]> trainPart(HarmonicGraph part, int port) {
    List<RemoteBinding> entering = bindings(part.entering(), port);
    List<RemoteBinding> leaving = bindings(part.leaving(), port);
    try (RemoteScheduler scheduler =
        new RemoteScheduler(part, entering, leaving, TestData.SETTINGS)) {
      TestData.bind(part, scheduler);
      scheduler.fit(2);
      return bytes(scheduler);
    }
  }

  private static List<RemoteBinding> bindings(List<String> names, int port) {
    return names.stream().map(name -> new RemoteBinding(name, "127.0.0.1", port)).toList();
  }

  private static Map<String, byte[]> bytes(Engine engine) {
    Map<String, byte[]> copied = new HashMap<>();
    try (NamedTensors parameters = engine.parameters()) {
      parameters
          .asMap()
          .forEach(
              (name, tensor) -> {
                byte[] values = new byte[tensor.data().remaining()];
                tensor.data().get(values);
                copied.put(name, values);
              });
    }
    return copied;
  }

  @Test
  void aBusHandsTensorsOverInPlace() {
    try (MessageBus first = MessageBus.open("here");
        MessageBus second = MessageBus.open("here")) {
      Tensor sent = Tensor.of(new long[] {3}, 1, 2, 3);
      first.send(sent, 7, PATIENCE);
      try (NamedTensors received = second.receive(PATIENCE)) {
        assertArrayEquals(new float[] {1, 2, 3}, received.get("tensor").floats());
        // The very bytes: nothing was copied on the way through native code and back.
        sent.data().putFloat(4, 20);
        assertArrayEquals(new float[] {1, 20, 3}, received.get("tensor").floats());
      }
      assertEquals(0, first.stats().number("socket_payload_sent"));
      Thread other = new Thread(() -> first.finish(PATIENCE));
      other.start();
      assertNull(second.receive(PATIENCE));
    }
  }

  @Test
  void aSumOverThreadsIsTheSameInAll() throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(3);
    try {
      List<Future<float[]>> sums = new ArrayList<>();
      for (int rank = 0; rank < 3; rank++) {
        int own = rank;
        Map<Integer, Transport> peers = new TreeMap<>();
        for (int other : Reduction.TREE.peers(rank, 3)) {
          String way = "sum/" + Math.min(rank, other) + "-" + Math.max(rank, other);
          peers.put(other, MessageBus.open(way));
        }
        sums.add(
            pool.submit(
                () -> {
                  try (Reducer reducer = new Reducer(Reduction.TREE, own, 3, peers);
                      NamedTensors sum =
                          reducer.sum(Map.of("g", Tensor.of(new long[] {2}, own, 10 * own)), 1)) {
                    return sum.get("g").floats();
                  }
                }));
      }
      for (Future<float[]> sum : sums) {
        assertArrayEquals(
            new float[] {3, 30}, sum.get(PATIENCE.toSeconds(), TimeUnit.SECONDS));
      }
    } finally {
      pool.shutdownNow();
    }
  }

  @Test
  void anotherThreadEndsAWait() throws Exception {
    try (HarmonicGraph graph = TestData.graph();
        HarmonicGraph part = graph.partition(2).get(0);
        DistributedScheduler alone =
            new DistributedScheduler(List.of(part), TestData.SETTINGS)) {
      TestData.bind(part, alone);
      MessageBus nobody = MessageBus.open("nobody");
      for (String name : part.leaving()) {
        alone.bindConsumer(name, MessageBus.open("nobody"));
      }
      Thread stopper = new Thread(alone::stop);
      stopper.start();
      HarmonicsException error = assertThrows(HarmonicsException.class, () -> alone.fit(1));
      stopper.join();
      assertEquals("cancelled", error.code(), error.getMessage());
      assertEquals(1, alone.traffic().inner("ends").number("bus"));
      nobody.close();
    }
  }

  @Test
  void filesThatJavaReadsAreSamples() {
    byte[] text = "1,2\n3,4\n5,6\n".getBytes(StandardCharsets.UTF_8);
    ByteReader reader = (offset, out) -> out.put(text, (int) offset, out.remaining());
    try (Producer rows = Producer.open("csv:far://host/a.csv?columns=1", text.length, reader)) {
      assertEquals(3, rows.samples());
    }
    ByteReader broken =
        (offset, out) -> {
          throw new IOException("the line is cut");
        };
    HarmonicsException error =
        assertThrows(
            HarmonicsException.class,
            () -> Producer.open("csv:far://host/a.csv", text.length, broken));
    assertTrue(error.getMessage().contains("far://host/a.csv"), error.getMessage());
    assertTrue(error.getMessage().contains("the line is cut"), error.getMessage());
  }

  @Test
  void keptSamplesAreReadOnce() {
    AtomicInteger read = new AtomicInteger();
    RowReader reader =
        (rows, out) -> {
          for (long row : rows) {
            read.incrementAndGet();
            out.putFloat(row).putFloat(1);
          }
        };
    try (HarmonicGraph graph =
            HarmonicGraph.parse(
                """
                harmonic net {
                  producer x {2};
                  layer y linear(out = 2);
                  consumer out;
                  cycle { x -> y -> out; y <-(mse)- x; }
                }
                """);
        CycleRuntime runtime = new CycleRuntime(graph, TestData.SETTINGS);
        Producer rows = new RowProducer("float32", new long[] {2}, 6, reader)) {
      Producer kept = new CacheProducer(rows, 1 << 20);
      runtime.bindProducer("x", new BatchProducer(new ShuffleProducer(kept), 3));
      runtime.fit(4);
      assertEquals(6, read.get());
      HarmonicsException late =
          assertThrows(
              HarmonicsException.class,
              () -> new CacheProducer(new ShuffleProducer(rows), 1 << 20));
      assertTrue(late.getMessage().contains("before they are shuffled"), late.getMessage());
      assertThrows(IllegalArgumentException.class, () -> new CacheProducer(rows, -1));
      HarmonicsException unknown =
          assertThrows(
              HarmonicsException.class, () -> new AugmentProducer(rows, Map.of("turn", 90)));
      assertTrue(unknown.getMessage().contains("there are crop_padding"), unknown.getMessage());
    }
  }

  @Test
  void checkpointsAndStoppingGoOnWhereTheyWere(@TempDir Path folder) {
    Path file = folder.resolve("run.safetensors");
    try (HarmonicGraph graph = TestData.graph();
        CycleRuntime first = new CycleRuntime(graph, TestData.SETTINGS);
        CycleRuntime second = new CycleRuntime(graph, TestData.SETTINGS)) {
      TestData.bind(graph, first);
      TestData.bind(graph, second);
      Report broken =
          first.fit(2, Map.of("checkpoint", file.toString()), step -> step.number("step") < 5);
      assertEquals(5, broken.number("steps"));
      assertTrue(Files.exists(file));
      second.loadCheckpoint(file);
      second.fit(2);
      assertEquals(alone(2), second.weightsDigest());
    }
  }

  @Test
  void errorsKeepTheirWords() {
    HarmonicsException error =
        assertThrows(HarmonicsException.class, () -> HarmonicGraph.zoo("no-such-net"));
    assertEquals("not_found", error.code());
    assertTrue(error.getMessage().contains("digits-mlp"), error.getMessage());
    try (HarmonicGraph graph = TestData.graph()) {
      error =
          assertThrows(
              HarmonicsException.class, () -> new CycleRuntime(graph, Map.of("speed", 3)));
      assertTrue(error.getMessage().contains("micro_batches"), error.getMessage());
    }
    error = assertThrows(HarmonicsException.class, () -> new CsvProducer("/no/such/äöü.csv"));
    assertTrue(error.getMessage().contains("äöü"), error.getMessage());
  }

  @Test
  void csvFilesAreReadWithTheOptionsOfTheLibrary(@TempDir Path folder) throws IOException {
    String file =
        Files.writeString(folder.resolve("a b?c.csv"), "x;y;z\n1;2;3\n4;5;6\n7;8;9\n").toString();
    Map<String, Object> options = new HashMap<>();
    options.put("delimiter", ";");
    options.put("header", true);
    options.put("columns", "y,0");
    options.put("shape", List.of(2, 1));
    options.put("dtype", "float64");
    options.put("scale", 0.5);
    options.put("row_limit", 3);
    try (HarmonicGraph open = HarmonicGraph.parse(
            "harmonic h { producer x; layer y linear(out = 1); consumer z; cycle { x -> y -> z; } }");
        Producer rows = new CsvProducer(file, options);
        HarmonicGraph resolved = open.resolvedWith(Map.of("x", rows))) {
      assertEquals(3, rows.samples());
      assertArrayEquals(new long[] {2, 1}, resolved.shape("x"));
      assertEquals("float64", resolved.dtype("x"));
    }
    options.put("row_limit", 2);
    assertTold(() -> new CsvProducer(file, options), "has 3 rows, more than the limit of 2");
    assertTold(() -> new CsvProducer(file, Map.of("colums", "0")), "there are columns, dtype");
    String missing = folder.resolve("x.csv") + "?columns=64";
    assertTold(() -> new CsvProducer(missing), "give options beside the path");
  }

  private static void assertTold(Executable wrong, String words) {
    String told = assertThrows(HarmonicsException.class, wrong).getMessage();
    assertTrue(told.contains(words), told);
  }

  @Test
  void exceptionsOfJavaCodeComeThrough() {
    RowReader broken =
        (rows, out) -> {
          throw new IllegalStateException("the disk is gone");
        };
    try (HarmonicGraph graph = TestData.graph();
        CycleRuntime runtime = new CycleRuntime(graph, TestData.SETTINGS)) {
      runtime.bindProducer(
          "x", new BatchProducer(new RowProducer("float32", new long[] {2}, 10, broken), 5));
      runtime.bindProducer("label", new BatchProducer(TestData.labels().share(0, 6), 5));
      HarmonicsException error = assertThrows(HarmonicsException.class, runtime::step);
      assertTrue(error.getMessage().contains("the disk is gone"), error.getMessage());
    }
    try (HarmonicGraph graph = TestData.graph();
        CycleRuntime runtime = new CycleRuntime(graph, TestData.SETTINGS)) {
      TestData.bind(graph, runtime);
      IllegalStateException thrown =
          assertThrows(
              IllegalStateException.class,
              () ->
                  runtime.fit(
                      1,
                      Map.of(),
                      step -> {
                        throw new IllegalStateException("enough");
                      }));
      assertEquals("enough", thrown.getMessage());
    }
  }

  @Test
  void nativeMemoryIsFilledInPlace() {
    Tensor copied = Tensor.of(new long[] {2, 2}, 1, 2, 3, 4);
    try (NamedTensors made = NamedTensors.empty("w", "float32", 2, 2)) {
      Tensor filled = made.get("w");
      filled.data().asFloatBuffer().put(new float[] {1, 2, 3, 4});
      assertArrayEquals(new long[] {2, 2}, filled.shape());
      assertEquals(Weights.digest(Map.of("w", copied)), Weights.digest(Map.of("w", filled)));
    }
    String told =
        assertThrows(HarmonicsException.class, () -> NamedTensors.empty("w", "float31", 2))
            .getMessage();
    assertTrue(told.contains("float31"), told);
    assertThrows(HarmonicsException.class, () -> NamedTensors.empty("w", "float32", -1));
  }

  @Test
  void whatIsClosedIsRefused() {
    HarmonicGraph graph = TestData.graph();
    graph.close();
    graph.close();
    assertThrows(IllegalStateException.class, graph::encode);
  }

  @Test
  void twoClassLoadersLoadTheLibrarySideBySide() throws Exception {
    String digest = alone(1);
    List<URL> places = new ArrayList<>();
    for (String place : System.getProperty("java.class.path").split(":")) {
      places.add(Path.of(place).toUri().toURL());
    }
    try (URLClassLoader loader =
        new URLClassLoader(places.toArray(URL[]::new), ClassLoader.getPlatformClassLoader())) {
      Class<?> other = loader.loadClass("io.harmonics.BindingsTest");
      assertNotEquals(BindingsTest.class, other);
      var method = other.getDeclaredMethod("alone", long.class);
      method.setAccessible(true);
      assertEquals(digest, method.invoke(null, 1L));
    }
  }
}
