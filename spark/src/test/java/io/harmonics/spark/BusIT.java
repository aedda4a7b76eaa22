package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.HarmonicGraph;
import io.harmonics.Report;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;

/** Tasks inside one Java machine. */
class BusIT {
  @Test
  void tasksOfOneProcessShareABusWithoutASocket() throws Exception {
    SparkSession session = LocalCluster.start("local[2]");
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingResult result = new HarmonicsSpark(session).layerParallel(graph, Digits.job());
      assertEquals(Digits.nativeDigest(2), result.weightsDigest());
      assertEquals(Set.of(Long.toString(ProcessHandle.current().pid())), result.processes());
      for (Report task : result.traffic()) {
        assertEquals(Set.of("bus"), task.inner("ends").names());
        assertTrue(task.number("bytes_sent") > 0);
        assertEquals(0, task.number("socket_payload_sent"));
        assertEquals(0, task.number("socket_payload_received"));
      }
    }
  }

  @Test
  void withoutThePluginTreeAggregateSumsAndTheLogSaysSo() {
    List<float[]> vectors = Vectors.drawn(37);
    SparkSession bare = LocalCluster.withoutPlugin();
    float[] fallback;
    try (LogLines log = new LogLines(TreeSum.class)) {
      assertThrows(
          IllegalStateException.class,
          () -> TreeSum.inTasks(Vectors.spread(bare, vectors, 2), (member, sum) -> member));
      assertEquals(List.of(), log.told());
      fallback = new HarmonicsSpark(bare).sum(Vectors.spread(bare, vectors, 2));
      assertEquals(1, log.told().size());
      assertTrue(log.told().get(0).contains("treeAggregate"), log.told().get(0));
    }
    Vectors.checkSum(vectors, fallback);

    SparkSession session = LocalCluster.start("local[2]");
    try (LogLines log = new LogLines(TreeSum.class)) {
      float[] sum = new HarmonicsSpark(session).sum(Vectors.spread(session, vectors, 2));
      assertEquals(List.of(), log.told());
      // Two tasks leave but one order: that of the rows, then that of the tasks.
      assertArrayEquals(fallback, sum);
    }
  }

  @Test
  void trainingWithoutThePluginIsRefused() {
    SparkSession bare = LocalCluster.withoutPlugin();
    try (HarmonicGraph graph = Digits.graph()) {
      IllegalStateException error =
          assertThrows(
              IllegalStateException.class,
              () -> new HarmonicsSpark(bare).dataParallel(graph, Digits.job()));
      assertTrue(error.getMessage().contains("spark.plugins="), error.getMessage());
    }
  }
}
