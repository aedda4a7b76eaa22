package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** One short round of the benchmark: that it runs, not how fast. */
class SparkBenchIT {
  @Test
  void theBenchmarkRuns() throws Exception {
    Path program = Path.of(System.getProperty("harmonics.source"), "build-Release/harmonics");
    Assumptions.assumeTrue(Files.exists(program), "the command line was not built");
    SparkSession session = LocalCluster.start(LocalCluster.TWO_EXECUTORS);
    LocalCluster.whole();
    List<String> rows = new SparkBench(session, true).run();
    assertEquals(5, rows.size());
    for (String row : rows) {
      assertTrue(row.split(" \\| ").length == 5, row);
    }
  }
}
