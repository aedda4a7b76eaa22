package io.harmonics.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/** Counts the bytes of results that tasks send to the driver, by stage. */
final class DriverTraffic extends SparkListener {
  private final Map<Integer, Long> bytes = new HashMap<>();

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd end) {
    if (end.taskMetrics() != null) {
      bytes.merge(end.stageId(), end.taskMetrics().resultSize(), Long::sum);
    }
  }

  /** All of them, the stage that answers the job last. */
  synchronized Map<Integer, Long> byStage() {
    return new java.util.TreeMap<>(bytes);
  }
}
