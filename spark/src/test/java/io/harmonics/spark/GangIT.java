package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.HarmonicGraph;
import io.harmonics.Transport;
import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Gangs on two executor processes. */
class GangIT {
  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalCluster.start(LocalCluster.TWO_EXECUTORS);
  }

  @BeforeEach
  void whole() {
    LocalCluster.whole();
  }

  private static JavaRDD<Integer> seats(int count) {
    List<Integer> numbers = java.util.stream.IntStream.range(0, count).boxed().toList();
    return JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(numbers, count);
  }

  @Test
  void membersMeetInTwoProcesses() {
    List<String> processes =
        Gang.run(
            "meet",
            seats(2),
            (member, rows) -> {
              Address own = member.here().listeningAt(1000 + member.index());
              Address[] all = member.meet(own);
              member.meet(own);
              return String.join(
                  " ",
                  all[member.index()].process(),
                  Long.toString(ProcessHandle.current().pid()),
                  all[0].port() + "," + all[1].port(),
                  Boolean.toString(all[0].sharesMachineWith(all[1])));
            });
    assertNotEquals(processes.get(0), processes.get(1));
    for (String process : processes) {
      String[] words = process.split(" ");
      assertNotEquals(Long.toString(ProcessHandle.current().pid()), words[1]);
      assertEquals("1000,1001", words[2]);
      assertEquals("true", words[3]);
    }
  }

  @Test
  void membersListenAtPortsDerivedFromTheirPartition() {
    int base = freePair();
    TrainingJob job = new TrainingJob().carrier(Carrier.TCP).basePort(base);
    List<Integer> ports =
        Gang.run(
            "ports",
            seats(2),
            (member, rows) -> {
              Address own = member.here();
              Endpoints endpoints = new Endpoints(job, member, own, member.meet(own));
              try (Transport end = endpoints.taking("boundary", 1 - member.index())) {
                member.meet(own);
                return end.port();
              }
            });
    assertEquals(List.of(base, base + 1), ports);
  }

  /** Two neighbouring ports below those that the system hands out by itself. */
  private static int freePair() {
    int base = 20_000 + (int) (ProcessHandle.current().pid() * 2 % 10_000);
    while (!isFree(base) || !isFree(base + 1)) {
      base += 2;
    }
    return base;
  }

  private static boolean isFree(int port) {
    try {
      new ServerSocket(port).close();
      return true;
    } catch (IOException taken) {
      return false;
    }
  }

  @Test
  void membersAskForTheirHostsAndRunWithoutThem() {
    JavaRDD<Integer> shuffled = seats(2).repartition(2);
    PlacedRdd<Integer> placed = new PlacedRdd<>(shuffled.rdd(), List.of("here", "there"));
    assertEquals("there", placed.preferredLocations(placed.partitions()[1]).mkString());
    List<Integer> sums =
        Gang.run(
            "placed",
            new JavaRDD<>(placed, shuffled.classTag()),
            (GangMember member, Iterator<Integer> rows) -> {
              int sum = 0;
              while (rows.hasNext()) {
                sum += rows.next();
              }
              return sum;
            });
    assertEquals(1, sums.get(0) + sums.get(1));
  }

  @Test
  void anErrorInOneTaskEndsTheJobWithItsOwnWords() {
    IllegalStateException error =
        assertThrows(
            IllegalStateException.class,
            () ->
                Gang.run(
                    "wrong",
                    seats(2),
                    (member, rows) -> {
                      if (member.index() == 1) {
                        HarmonicGraph.zoo("no-such-network");
                      }
                      return "fine";
                    }));
    assertTrue(error.getMessage().contains("task 1"), error.getMessage());
    assertTrue(error.getMessage().contains("digits-mlp"), error.getMessage());
    assertEquals(1, HarmonicsPlugin.board().attemptsOf("wrong"));
  }

  @Test
  void aDeadExecutorIsReplacedAndTheGangStartsAgain() {
    List<Integer> attempts =
        Gang.run(
            "killed",
            seats(2),
            (member, rows) -> {
              member.meet(member.here());
              if (member.index() == 0 && member.attempt() == 0) {
                Runtime.getRuntime().halt(9);
              }
              member.meet(member.here());
              return member.attempt();
            });
    assertEquals(List.of(1, 1), attempts);
  }

  @Test
  void theNativeTreeAndTreeAggregateSumTheSame() {
    List<float[]> vectors = Vectors.drawn(37);
    JavaRDD<float[]> spread = Vectors.spread(session, vectors, 4);
    Vectors.checkSum(vectors, TreeSum.of(spread));
    Vectors.checkSum(vectors, TreeSum.byTreeAggregate(spread));
    // All tasks have the same bits.
    List<Integer> digests =
        TreeSum.inTasks(spread, (member, sum) -> Arrays.hashCode(sum.floats()));
    assertEquals(1, Set.copyOf(digests).size(), digests.toString());
  }

  /** Four slots: by Spark's own check eleven tasks at a time would be refused after ten minutes. */
  @Test
  void morePartitionsThanTaskSlotsAreSummedTheSameEveryTime() {
    List<float[]> vectors = Vectors.drawn(37);
    float[] sum = sumOf(Vectors.spread(session, vectors, 11));
    Vectors.checkSum(vectors, sum);
    assertArrayEquals(sum, sumOf(Vectors.spread(session, vectors, 11)));
    List<float[]> unequal = List.of(new float[2], new float[3], new float[4]);
    String told =
        assertThrows(
                IllegalStateException.class, () -> sumOf(Vectors.spread(session, unequal, 9)))
            .getMessage();
    assertTrue(told.startsWith("task ") && told.contains("numbers cannot be added"), told);
  }

  private static float[] sumOf(JavaRDD<float[]> vectors) {
    return assertTimeoutPreemptively(Duration.ofMinutes(2), () -> TreeSum.of(vectors));
  }

  @Test
  void tasksWithoutVectorsAddNothing() {
    List<float[]> vectors = Vectors.drawn(2);
    JavaRDD<float[]> sparse = Vectors.spread(session, vectors, 4);
    Vectors.checkSum(vectors, TreeSum.of(sparse));
    Vectors.checkSum(vectors, TreeSum.byTreeAggregate(sparse));
    JavaRDD<float[]> none = sparse.filter(vector -> false);
    assertEquals(0, TreeSum.of(none).length);
    assertEquals(0, TreeSum.byTreeAggregate(none).length);
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    assertEquals(0, TreeSum.of(context.emptyRDD()).length);
  }

  @Test
  void vectorsOfUnequalLengthAreAnError() {
    List<float[]> unequal = List.of(new float[2], new float[3], new float[4]);
    JavaRDD<float[]> spread = Vectors.spread(session, unequal, 4);
    String told = assertThrows(IllegalStateException.class, () -> TreeSum.of(spread)).getMessage();
    assertTrue(told.startsWith("task "), told);
    assertTrue(told.contains("numbers cannot be added"), told);
    Throwable other = assertThrows(Exception.class, () -> TreeSum.byTreeAggregate(spread));
    while (other.getCause() != null) {
      other = other.getCause();
    }
    assertTrue(other.getMessage().contains("numbers cannot be added"), other.getMessage());
  }
}
