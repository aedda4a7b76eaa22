package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.HarmonicGraph;
import io.harmonics.Report;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;

/** Many jobs in one application, whose derived ports are all taken. */
class ManyJobsIT {
  /** A slice of the hundred; {@code HARMONICS_SOAK=1} runs them all. */
  private static final int JOBS = System.getenv("HARMONICS_SOAK") == null ? 24 : 100;

  private static final int AT_A_TIME = 2;

  @Test
  void manyJobsTwoAtATimeNeverClash() throws Exception {
    try (ServerSocket first = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        ServerSocket second = neighbour(first)) {
      run(Carrier.TCP, "tcp", first.getLocalPort());
      assertTrue(first.isBound() && second.isBound());
    }
  }

  @Test
  void manyJobsTwoAtATimeShareNoMemory() throws Exception {
    run(Carrier.SHARED_MEMORY, "shm", 40400);
  }

  private static void run(Carrier carrier, String kind, int basePort) throws Exception {
    SparkSession session = LocalCluster.start(LocalCluster.TWO_EXECUTORS);
    LocalCluster.whole();
    ExecutorService pool = Executors.newFixedThreadPool(AT_A_TIME);
    try (HarmonicGraph graph = Digits.graph()) {
      byte[] blob = graph.encode();
      TrainingJob job =
          new TrainingJob()
              .bind("image", "synthetic:?size=16&shape=64")
              .bind("label", "synthetic:?size=16&kind=integers&below=10")
              .epochs(1)
              .batchSize(8)
              .carrier(carrier)
              .basePort(basePort);
      List<Future<TrainingResult>> runs = new ArrayList<>();
      for (int i = 0; i < JOBS; i++) {
        runs.add(
            pool.submit(
                () -> {
                  try (HarmonicGraph own = HarmonicGraph.decode(blob)) {
                    return new HarmonicsSpark(session).layerParallel(own, job);
                  }
                }));
      }
      Set<String> digests = new HashSet<>();
      for (Future<TrainingResult> run : runs) {
        TrainingResult result = run.get(5, TimeUnit.MINUTES);
        digests.add(result.weightsDigest());
        assertEquals(1, result.attempts());
        for (Report task : result.traffic()) {
          assertEquals(Set.of(kind), task.inner("ends").names());
        }
      }
      assertEquals(1, digests.size());
    } finally {
      pool.shutdownNow();
    }
  }

  /** The next port, taken by this or by someone else. */
  private static ServerSocket neighbour(ServerSocket first) throws Exception {
    try {
      return new ServerSocket(first.getLocalPort() + 1, 1, InetAddress.getLoopbackAddress());
    } catch (java.net.BindException taken) {
      return new ServerSocket(0);
    }
  }
}
