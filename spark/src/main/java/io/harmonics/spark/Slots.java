package io.harmonics.spark;

import java.time.Duration;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How many tasks a cluster runs at the same time. Tasks that wait for each other need as many slots
 * as they are; Spark itself says so only after ten minutes.
 */
final class Slots {
  private static final Logger LOG = LoggerFactory.getLogger(Slots.class);

  /** How long executors that have not come yet, or again, are waited for. */
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private static final Pattern LOCAL_CLUSTER =
      Pattern.compile("local-cluster\\[\\s*(\\d+)\\s*,\\s*(\\d+)\\s*,.*]");

  private Slots() {}

  /** Of the executors that are there now. */
  static int now(SparkContext context) {
    return context.maxNumConcurrentTasks(
        context.resourceProfileManager().defaultResourceProfile());
  }

  /** The same, at least 1: the first executor is waited for. */
  static int some(SparkContext context) {
    need(context, 1);
    return now(context);
  }

  /**
   * Returns when there are as many slots as {@code tasks}. Where the cluster will never have them
   * it is an {@link IllegalStateException} at once; where it may, once executors were waited for.
   */
  static void need(SparkContext context, int tasks) {
    if (now(context) >= tasks) {
      return;
    }
    OptionalInt most = promised(context);
    if (most.isPresent() && most.getAsInt() < tasks) {
      throw tooFew(tasks, Math.max(most.getAsInt(), now(context)));
    }
    LOG.warn("{} tasks at a time are needed, the cluster has {}: waiting for executors",
        tasks, now(context));
    long start = System.nanoTime();
    while (now(context) < tasks) {
      if (System.nanoTime() - start > PATIENCE.toNanos()) {
        throw tooFew(tasks, now(context));
      }
      try {
        Thread.sleep(100);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while executors were waited for");
      }
    }
  }

  private static IllegalStateException tooFew(int tasks, int slots) {
    return new IllegalStateException(
        tasks + " tasks at a time are needed, the cluster has " + slots
            + ": give the session more executors or cores, or the job fewer parts or replicas");
  }

  /** How many there are once all executors are there; empty where the settings do not say. */
  static OptionalInt promised(SparkContext context) {
    if (context.isLocal()) {
      return OptionalInt.of(now(context));
    }
    SparkConf conf = context.conf();
    int cpus = Math.max(1, conf.getInt("spark.task.cpus", 1));
    Matcher cluster = LOCAL_CLUSTER.matcher(context.master());
    if (cluster.matches()) {
      int each = Integer.parseInt(cluster.group(2)) / cpus;
      return OptionalInt.of(Integer.parseInt(cluster.group(1)) * each);
    }
    if (context.master().startsWith("spark://")) {
      return conf.contains("spark.cores.max")
          ? OptionalInt.of(conf.getInt("spark.cores.max", 0) / cpus)
          : OptionalInt.empty();
    }
    return conf.contains("spark.executor.instances")
        ? OptionalInt.of(
            conf.getInt("spark.executor.instances", 0)
                * (conf.getInt("spark.executor.cores", 1) / cpus))
        : OptionalInt.empty();
  }
}
