package io.harmonics.spark;

import io.harmonics.NamedTensors;
import io.harmonics.Reducer;
import io.harmonics.Reduction;
import io.harmonics.Tensor;
import io.harmonics.Transport;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.api.java.JavaRDD;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The sum of vectors that lie in the partitions of an RDD. The tasks add up their own and then send
 * their sums up and down a tree over Harmonics' transports, so that all have the same sum. In a
 * session without the plugin Spark's {@code treeAggregate} does it, and the log says so.
 */
final class TreeSum {
  private static final Logger LOG = LoggerFactory.getLogger(TreeSum.class);

  private TreeSum() {}

  static float[] of(JavaRDD<float[]> vectors) {
    if (!HarmonicsPlugin.running()) {
      LOG.warn("the session runs without HarmonicsPlugin: treeAggregate sums, through the driver");
      return byTreeAggregate(vectors);
    }
    if (vectors.getNumPartitions() == 0) {
      return new float[0];
    }
    return inTasks(vectors, (member, sum) -> member == 0 ? sum.floats() : new float[0]).get(0);
  }

  /** What each task makes of the sum, which all of them have. */
  @FunctionalInterface
  interface Use<R extends Serializable> extends Serializable {
    R of(int member, Tensor sum);
  }

  static <R extends Serializable> List<R> inTasks(JavaRDD<float[]> vectors, Use<R> use) {
    return Gang.run(
        "harmonics-sum-" + UUID.randomUUID(),
        vectors,
        (GangMember member, Iterator<float[]> rows) -> {
          ByteBuffer own = own(rows);
          try (Reducer reducer =
                  new Reducer(Reduction.TREE, member.index(), member.size(), ends(member));
              NamedTensors sums = reducer.sum(Map.of("sum", agreed(own, reducer)), 1)) {
            return use.of(member.index(), sums.get("sum"));
          }
        });
  }

  static float[] byTreeAggregate(JavaRDD<float[]> vectors) {
    return vectors.treeAggregate(new float[0], TreeSum::added, TreeSum::added);
  }

  /** The sum of a task's own vectors, outside of Java's heap. */
  private static ByteBuffer own(Iterator<float[]> rows) {
    ByteBuffer data = direct(0);
    while (rows.hasNext()) {
      float[] row = rows.next();
      if (data.capacity() == 0) {
        data = direct(Math.multiplyExact(4, row.length));
        data.asFloatBuffer().put(row);
        continue;
      }
      checkLength(data.capacity() / 4, row.length);
      FloatBuffer sum = data.asFloatBuffer();
      for (int i = 0; i < row.length; i++) {
        sum.put(i, sum.get(i) + row[i]);
      }
    }
    return data;
  }

  /**
   * What a task gives to the sum: all ranks must give equally much, so that a task without vectors
   * learns from the others how many zeros to give. Lengths that differ are the reducer's error.
   */
  private static Tensor agreed(ByteBuffer own, Reducer reducer) {
    ByteBuffer told = direct(16);
    told.putDouble(0, own.capacity()).putDouble(8, own.capacity() == 0 ? 0 : 1);
    ByteBuffer given = own;
    try (NamedTensors all =
        reducer.sum(Map.of("bytes", Tensor.of("float64", new long[] {2}, told)), 0)) {
      ByteBuffer sums = all.get("bytes").data().order(ByteOrder.nativeOrder());
      if (own.capacity() == 0 && sums.getDouble(8) > 0) {
        given = direct((int) (sums.getDouble(0) / sums.getDouble(8)) / 4 * 4);
      }
    }
    return Tensor.of("float32", new long[] {given.capacity() / 4}, given);
  }

  private static ByteBuffer direct(int bytes) {
    return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
  }

  /** Adds in place where it can: an empty vector is a zero of any length. */
  private static float[] added(float[] sum, float[] more) {
    if (sum.length == 0) {
      return more.clone();
    }
    if (more.length == 0) {
      return sum;
    }
    checkLength(sum.length, more.length);
    for (int i = 0; i < sum.length; i++) {
      sum[i] += more[i];
    }
    return sum;
  }

  private static void checkLength(int wanted, int length) {
    if (wanted != length) {
      throw new IllegalArgumentException(
          "vectors of " + wanted + " and of " + length + " numbers cannot be added");
    }
  }

  private static Map<Integer, Transport> ends(GangMember member) {
    Address own = member.here();
    Endpoints ends = new Endpoints(new TrainingJob(), member, own, member.meet(own));
    int me = member.index();
    Map<Integer, Transport> peers = new TreeMap<>();
    List<Integer> lower = new ArrayList<>();
    for (int other : Reduction.TREE.peers(me, member.size())) {
      if (other > me) {
        peers.put(other, ends.taking("sum/" + me + "-" + other, other));
      } else {
        lower.add(other);
      }
    }
    Address[] all = member.meet(own.listeningAt(ends.port()));
    for (int other : lower) {
      peers.put(other, ends.sending("sum/" + other + "-" + me, all[other]));
    }
    return peers;
  }
}
