package io.harmonics.spark;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;

/** A Spark session with real executor processes on this machine. */
final class LocalCluster {
  private LocalCluster() {}

  /** Whether a process is one of the session's executors. */
  static boolean isExecutor(ProcessHandle process) {
    return process
        .info()
        .commandLine()
        .orElse("")
        .contains("CoarseGrainedExecutorBackend");
  }

  static SparkSession start(String master) {
    SparkConf conf =
        new SparkConf()
            .setMaster(master)
            .setAppName("harmonics")
            .set("spark.plugins", "io.harmonics.spark.HarmonicsPlugin")
            .set("spark.jars", System.getProperty("harmonics.jars"))
            .set("spark.ui.enabled", "false")
            .set("spark.driver.host", "127.0.0.1")
            .set("spark.driver.bindAddress", "127.0.0.1")
            .set("spark.executor.memory", "512m")
            .set("spark.barrier.sync.timeout", "120s")
            .set("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
            .set("spark.sql.warehouse.dir", System.getProperty("java.io.tmpdir"));
    return SparkSession.builder().config(conf).getOrCreate();
  }
}
