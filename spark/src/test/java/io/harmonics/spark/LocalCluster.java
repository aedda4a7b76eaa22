package io.harmonics.spark;

import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;

/**
 * Spark sessions on this machine. The tests that ask for the same master one after another share a
 * session, which ends with the Java machine: starting executors takes longer than most tests.
 */
final class LocalCluster {
  /** Two executor processes with two task slots each. */
  static final String TWO_EXECUTORS = "local-cluster[2,2,1024]";

  private static SparkSession session;

  private LocalCluster() {}

  /** Whether a process is one of the session's executors. */
  static boolean isExecutor(ProcessHandle process) {
    return process
        .info()
        .commandLine()
        .orElse("")
        .contains("CoarseGrainedExecutorBackend");
  }

  /**
   * Waits until both executors are there, since the test before may have killed one: four tasks at
   * the same time take them both.
   */
  static void whole() {
    List<Integer> seats = List.of(0, 1, 2, 3);
    List<Long> processes =
        Gang.run(
            "whole-" + UUID.randomUUID(),
            JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(seats, 4),
            (GangMember member, Iterator<Integer> rows) -> ProcessHandle.current().pid());
    if (Set.copyOf(processes).size() != 2) {
      throw new IllegalStateException("tasks ran in the processes " + processes);
    }
  }

  static SparkSession start(String master) {
    return start(master, "512m");
  }

  static SparkSession start(String master, String executorMemory) {
    return start(master, executorMemory, "io.harmonics.spark.HarmonicsPlugin");
  }

  /** Tasks in this Java machine, in a session that knows nothing of Harmonics. */
  static SparkSession withoutPlugin() {
    return start("local[2]", "512m", "");
  }

  private static synchronized SparkSession start(
      String master, String executorMemory, String plugins) {
    if (session != null
        && session.sparkContext().master().equals(master)
        && session.sparkContext().conf().get("spark.plugins").equals(plugins)) {
      return session;
    }
    if (session != null) {
      session.stop();
    }
    SparkConf conf =
        new SparkConf()
            .setMaster(master)
            .setAppName("harmonics")
            .set("spark.plugins", plugins)
            .set("spark.jars", System.getProperty("harmonics.jars"))
            .set("spark.ui.enabled", "false")
            .set("spark.driver.host", "127.0.0.1")
            .set("spark.driver.bindAddress", "127.0.0.1")
            .set("spark.executor.memory", executorMemory)
            // The first job waits for both executors, so that two tasks never share one.
            .set("spark.scheduler.minRegisteredResourcesRatio", "1.0")
            .set("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
            .set("spark.sql.shuffle.partitions", "4")
            .set("spark.sql.warehouse.dir", System.getProperty("java.io.tmpdir"));
    session = SparkSession.builder().config(conf).getOrCreate();
    return session;
  }
}
