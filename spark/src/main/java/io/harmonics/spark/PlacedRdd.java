package io.harmonics.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkExecutorInfo;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.storage.BlockManagerId;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The partitions of an RDD, each with a wish where it is computed. */
final class PlacedRdd<T> extends RDD<T> {
  private static final long serialVersionUID = 1L;

  private final ArrayList<String> hosts;

  /** {@code hosts} are by partition. */
  PlacedRdd(RDD<T> rows, List<String> hosts) {
    super(rows, rows.elementClassTag());
    this.hosts = new ArrayList<>(hosts);
  }

  /** The same rows for the members of a gang, where neighbours ask for the same machine. */
  static <T> JavaRDD<T> of(JavaRDD<T> rows, Layout layout) {
    Map<String, Integer> executors = executors(rows.context());
    List<String> hosts = Placement.of(layout.parts(), layout.replicas(), executors);
    return hosts.isEmpty()
        ? rows
        : new JavaRDD<>(new PlacedRdd<>(rows.rdd(), hosts), rows.classTag());
  }

  /** How many each host has, the driver left out. */
  private static Map<String, Integer> executors(SparkContext context) {
    BlockManagerId driver = SparkEnv.get().blockManager().blockManagerId();
    Map<String, Integer> executors = new HashMap<>();
    for (SparkExecutorInfo executor : context.statusTracker().getExecutorInfos()) {
      if (!executor.host().equals(driver.host()) || executor.port() != driver.port()) {
        executors.merge(executor.host(), 1, Integer::sum);
      }
    }
    return executors;
  }

  @Override
  public Partition[] getPartitions() {
    return firstParent(elementClassTag()).partitions();
  }

  @Override
  public Seq<String> getPreferredLocations(Partition partition) {
    return CollectionConverters.asScala(List.of(hosts.get(partition.index()))).toList();
  }

  @Override
  public Iterator<T> compute(Partition partition, TaskContext task) {
    return this.<T>firstParent(elementClassTag()).iterator(partition, task);
  }
}
