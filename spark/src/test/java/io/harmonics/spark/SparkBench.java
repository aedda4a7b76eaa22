package io.harmonics.spark;

import io.harmonics.HarmonicGraph;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.DoubleBinaryOperator;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.StorageLevel;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * What running inside Spark costs: prints rows {@code name | ours | reference | ratio | bar}.
 *
 * <p>{@code SparkBench [--short]}, started by scripts/bench-spark.sh. One short round is part of
 * the tests, so that it cannot rot.
 */
final class SparkBench {
  private static final String GRAPH =
      """
      harmonic bench {
        producer x {64};
        producer label {1} int64;
        layer first linear(out = 1024);
        layer second linear(out = 1024);
        layer output linear(out = 10);
        consumer prediction;
        cycle {
          x -(relu)-> first -(relu)-> second -> output -> prediction;
          output <-(cross_entropy)- label;
        }
      }
      """;
  private static final String X = "synthetic:?size=1024&shape=64";
  private static final String LABEL = "synthetic:?size=1024&kind=integers&below=10";

  private final SparkSession session;
  private final JavaSparkContext context;
  private final boolean brief;
  private final int rounds;

  SparkBench(SparkSession session, boolean brief) {
    this.session = session;
    this.context = JavaSparkContext.fromSparkContext(session.sparkContext());
    this.brief = brief;
    this.rounds = brief ? 1 : 5;
  }

  public static void main(String[] arguments) throws Exception {
    boolean brief = Arrays.asList(arguments).contains("--short");
    SparkSession session = LocalCluster.start("local-cluster[2,2,4096]", "3g");
    session.sparkContext().setLogLevel("ERROR");
    new SparkBench(session, brief).run().forEach(System.out::println);
    session.stop();
  }

  /** The rows. */
  List<String> run() throws Exception {
    List<String> rows = new ArrayList<>();
    rows.add("name | ours | reference | ratio | bar");
    rows.add(steps());
    rows.addAll(gradient());
    rows.add(firstStep());
    return rows;
  }

  /** CPU seconds of training steps in a Spark task and in a native process. */
  private String steps() throws Exception {
    long few = 2;
    long many = brief ? 4 : 22;
    // Short turns and many: a machine that is shared is faster and slower by several percent.
    int turns = brief ? 1 : 15;
    double steps = 16.0 * (many - few);
    Path file = Files.createTempFile("bench", ".harp");
    Rounds measured = new Rounds();
    try {
      Files.writeString(file, GRAPH);
      inTask(few); // the Java machines warm up
      for (int turn = 0; turn < turns; turn++) {
        double reference = inProcess(file, many) - inProcess(file, few);
        double ours = inTask(many) - inTask(few);
        measured.add(1e3 * ours / steps, 1e3 * reference / steps);
      }
    } finally {
      Files.delete(file);
    }
    return measured.row("step in a Spark task, CPU ms", (ours, other) -> ours / other, "<= 1.05");
  }

  private double inTask(long epochs) throws Exception {
    TrainingJob job =
        new TrainingJob().bind("x", X).bind("label", LABEL).batchSize(64).epochs(epochs).parts(1);
    job.set("threads", 1);
    double before = executorSeconds();
    try (HarmonicGraph graph = HarmonicGraph.parse(GRAPH)) {
      new HarmonicsSpark(session).layerParallel(graph, job);
    }
    return executorSeconds() - before;
  }

  /** CPU seconds of all executors so far. */
  private static double executorSeconds() {
    return ProcessHandle.current()
        .descendants()
        .filter(LocalCluster::isExecutor)
        .mapToLong(each -> each.info().totalCpuDuration().orElseThrow().toNanos())
        .sum()
        / 1e9;
  }

  private static double inProcess(Path file, long epochs) throws Exception {
    String program =
        Path.of(System.getProperty("harmonics.source"), "build-Release/harmonics").toString();
    String command =
        String.format(
            "TIMEFORMAT='%%U %%S'; time %s train %s --bind 'x=%s' --bind 'label=%s' --epochs %d"
                + " --batch-size 64 --threads 1 --seed 1 --output quiet >/dev/null",
            program, file, X, LABEL, epochs);
    Process process = new ProcessBuilder("bash", "-c", command).start();
    String told = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException(program + " train failed: " + told);
    }
    String[] words = told.strip().split("\\s+");
    return Double.parseDouble(words[words.length - 2])
        + Double.parseDouble(words[words.length - 1]);
  }

  /**
   * Wall seconds of the sum of four vectors of 100 MB that lie in four tasks. Ours is in all four
   * tasks, where a gradient is needed, that of treeAggregate in the driver. The tasks of a training
   * go on running and sum many times; a sum can also be a job of its own.
   */
  private List<String> gradient() throws Exception {
    int numbers = brief ? 1 << 16 : 25_000_000;
    JavaRDD<float[]> vectors =
        context
            .parallelize(IntStream.range(0, 4).boxed().toList(), 4)
            .map(
                number -> {
                  float[] values = new float[numbers];
                  Arrays.fill(values, number + 1);
                  return values;
                })
            .persist(StorageLevel.MEMORY_ONLY());
    check(new HarmonicsSpark(session).sum(vectors), numbers);
    Rounds running = new Rounds();
    Rounds ownJob = new Rounds();
    for (int round = 0; round < 3 * rounds; round++) {
      double inTraining = inRunningTasks(vectors, brief ? 1 : 5);
      double asJob = seconds(() -> TreeSum.inTasks(vectors, (member, sum) -> sum.shape()[0]));
      double reference = seconds(() -> TreeSum.byTreeAggregate(vectors));
      if (round >= rounds - 1) { // the Java machines are warm
        running.add(inTraining, reference);
        ownJob.add(asJob, reference);
      }
    }
    vectors.unpersist();
    DoubleBinaryOperator faster = (ours, other) -> other / ours;
    return List.of(
        running.row("gradient of 100 MB over 4 tasks (treeAggregate), s", faster, ">= 3"),
        ownJob.row("the same sum as a job of its own (treeAggregate), s", faster, ">= 3"));
  }

  /** Seconds of one sum in the slowest task. */
  private static double inRunningTasks(JavaRDD<float[]> vectors, int times) {
    List<Double> each =
        TreeSum.withReducers(
            vectors,
            (member, own, reducer) -> {
              reducer.sum(own, 0).close(); // all have come
              long start = System.nanoTime();
              for (int step = 1; step <= times; step++) {
                reducer.sum(own, step).close();
              }
              return (System.nanoTime() - start) / 1e9 / times;
            });
    return Collections.max(each);
  }

  private static void check(float[] sum, int numbers) {
    if (sum.length != numbers || sum[0] != 10 || sum[numbers - 1] != 10) {
      throw new IllegalStateException("the sum is wrong");
    }
  }

  /** Wall seconds from calling to a job's one step having been done, and of an empty job. */
  private String firstStep() throws Exception {
    TrainingJob job =
        new TrainingJob()
            .bind("x", "synthetic:?size=64&shape=64")
            .bind("label", "synthetic:?size=64&kind=integers&below=10")
            .batchSize(64)
            .epochs(1);
    Rounds measured = new Rounds();
    try (HarmonicGraph graph = HarmonicGraph.parse(GRAPH)) {
      HarmonicsSpark spark = new HarmonicsSpark(session);
      spark.layerParallel(graph, job);
      for (int round = 0; round < 2 * rounds; round++) {
        double reference = seconds(this::emptyJob);
        measured.add(seconds(() -> spark.layerParallel(graph, job)), reference);
      }
    }
    return measured.row(
        "submit to first step, s (ratio: s more)", (ours, other) -> ours - other, "<= 1.0");
  }

  /** The same shape in Spark alone: two tasks of a barrier stage, and a shuffle. */
  private Object emptyJob() {
    RDD<Integer> seats = context.parallelize(List.of(0, 1), 2).rdd();
    RDD<Integer> made =
        seats.barrier().mapPartitions(new Same(), false, ClassTag$.MODULE$.apply(Integer.class));
    return new JavaRDD<>(made, made.elementClassTag()).repartition(1).collect();
  }

  private static final class Same
      extends AbstractFunction1<
          scala.collection.Iterator<Integer>, scala.collection.Iterator<Integer>>
      implements java.io.Serializable {
    private static final long serialVersionUID = 1L;

    @Override
    public scala.collection.Iterator<Integer> apply(scala.collection.Iterator<Integer> rows) {
      return rows;
    }
  }

  private static double seconds(Callable<?> work) throws Exception {
    long start = System.nanoTime();
    work.call();
    return (System.nanoTime() - start) / 1e9;
  }

  /** What was measured in turn: the two figures of a round lie close together in time. */
  private static final class Rounds {
    private final List<double[]> all = new ArrayList<>();

    void add(double ours, double reference) {
      all.add(new double[] {ours, reference});
    }

    /** Medians; the ratio is that of the rounds' ratios. */
    String row(String name, DoubleBinaryOperator ratio, String bar) {
      return String.format(
          "%s | %.3f | %.3f | %.3f | %s",
          name,
          median(each -> each[0]),
          median(each -> each[1]),
          median(each -> ratio.applyAsDouble(each[0], each[1])),
          bar);
    }

    private double median(ToDoubleFunction<double[]> figure) {
      return all.stream()
          .mapToDouble(figure)
          .sorted()
          .skip(all.size() / 2)
          .findFirst()
          .orElseThrow();
    }
  }
}
