package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.HarmonicGraph;
import io.harmonics.Report;
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
}
