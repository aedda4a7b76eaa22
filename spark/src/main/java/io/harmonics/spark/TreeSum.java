package io.harmonics.spark;

import io.harmonics.NamedTensors;
import io.harmonics.Reducer;
import io.harmonics.Reduction;
import io.harmonics.Tensor;
import io.harmonics.Transport;
import java.io.Serializable;
import java.nio.FloatBuffer;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.api.java.JavaRDD;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Tuple2;

/**
 * The sum of vectors that lie in the partitions of an RDD. The tasks add up their own and then send
 * their sums up and down a tree over Harmonics' transports, so that all have the same sum. In a
 * session without the plugin Spark's {@code treeAggregate} does it, and the log says so.
 *
 * <p>Tasks of a tree run at the same time. An RDD with more partitions than the cluster has slots
 * is added up partition by partition first, as Spark schedules them, and each task of the tree then
 * adds the sums of neighbouring partitions in their order. So the bits depend on the partitions and
 * on the number of tasks, the smaller one of partitions and slots, and on nothing else.
 */
final class TreeSum {
  private static final Logger LOG = LoggerFactory.getLogger(TreeSum.class);

  /** How much longer than the first a task may take to make and add up its own vectors. */
  private static final Duration LONGEST = Duration.ofDays(7);

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
    return withReducers(
        vectors,
        (member, own, reducer) -> {
          try (NamedTensors sums = reducer.sum(own, 1)) {
            return use.of(member, sums.get("sum"));
          }
        });
  }

  /** What each task makes of its own sum and its rank of a reduction. */
  @FunctionalInterface
  interface Reduce<R extends Serializable> extends Serializable {
    R of(int member, Map<String, Tensor> own, Reducer reducer);
  }

  static <R extends Serializable> List<R> withReducers(
      JavaRDD<float[]> vectors, Reduce<R> work) {
    int slots = Slots.some(vectors.context());
    return Gang.run(
        "harmonics-sum-" + UUID.randomUUID(),
        vectors.getNumPartitions() > slots ? gathered(vectors, slots) : vectors,
        (GangMember member, Iterator<float[]> rows) -> {
          Address here = member.here();
          Endpoints ends = new Endpoints(new TrainingJob(), member, here, member.meet(here));
          try (OwnSum own = new OwnSum(rows);
              Reducer reducer = reducer(member, ends, own)) {
            return work.of(member.index(), Map.of("sum", own.tensor()), reducer);
          }
        });
  }

  /**
   * The sum of a partition, or why there is none: an exception would only make Spark try again.
   */
  private record Partial(float[] sum, String error) implements Serializable {
    static Partial of(Iterator<float[]> rows) {
      float[] sum = new float[0];
      try {
        while (rows.hasNext()) {
          sum = added(sum, rows.next());
        }
      } catch (IllegalArgumentException unequal) {
        return new Partial(null, unequal.getMessage());
      }
      return new Partial(sum, null);
    }

    float[] get() {
      if (error != null) {
        throw new IllegalArgumentException(error);
      }
      return sum;
    }
  }

  /** The sums of the partitions, in their order in so many stretches of equal length. */
  private static JavaRDD<float[]> gathered(JavaRDD<float[]> vectors, int stretches) {
    int partitions = vectors.getNumPartitions();
    return vectors
        .mapPartitionsWithIndex(
            (index, rows) ->
                List.of(new Tuple2<>(Long.valueOf(index), Partial.of(rows))).iterator(),
            false)
        .mapToPair(each -> each)
        .repartitionAndSortWithinPartitions(
            new PartInference.Stretches(partitions, stretches, 1))
        .values()
        .map(Partial::get);
  }

  static float[] byTreeAggregate(JavaRDD<float[]> vectors) {
    return vectors.treeAggregate(new float[0], TreeSum::added, TreeSum::added);
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

  /**
   * Meets the others, who may have been adding up their own for long, and learns from them how many
   * numbers the sum has: a task without vectors gives as many zeros.
   */
  private static Reducer reducer(GangMember member, Endpoints ends, OwnSum own) {
    int me = member.index();
    Map<Integer, Transport> peers = new TreeMap<>();
    try {
      for (int other : Reduction.TREE.peers(me, member.size())) {
        if (other > me) {
          peers.put(other, ends.taking("sum/" + me + "-" + other, other));
        }
      }
      String here = member.here().listeningAt(ends.port()).text();
      String[] told = member.meet(own.numbers() + " " + here, LONGEST);
      for (String each : told) {
        own.agreeOn(Integer.parseInt(each.substring(0, each.indexOf(' '))));
      }
      for (int other : Reduction.TREE.peers(me, member.size())) {
        if (other < me) {
          Address taker = Address.parse(told[other].substring(told[other].indexOf(' ') + 1));
          peers.put(other, ends.sending("sum/" + other + "-" + me, taker));
        }
      }
    } catch (RuntimeException error) {
      peers.values().forEach(Transport::close);
      throw error;
    }
    return new Reducer(Reduction.TREE, me, member.size(), peers);
  }

  /** The sum of a task's own vectors, outside of Java's heap. */
  private static final class OwnSum implements AutoCloseable {
    private NamedTensors sum;

    OwnSum(Iterator<float[]> rows) {
      try {
        rows.forEachRemaining(this::add);
      } catch (RuntimeException error) {
        close();
        throw error;
      }
    }

    private void add(float[] row) {
      if (row.length == 0) {
        return;
      }
      if (sum == null) {
        sum = NamedTensors.empty("sum", "float32", row.length);
        values().put(row);
        return;
      }
      checkLength(numbers(), row.length);
      FloatBuffer values = values();
      for (int i = 0; i < row.length; i++) {
        values.put(i, values.get(i) + row[i]);
      }
    }

    /** How many there are; 0 when the task has no vector. */
    int numbers() {
      return sum == null ? 0 : values().capacity();
    }

    /** Hears how many numbers another task has. */
    void agreeOn(int others) {
      if (others != 0 && sum != null) {
        checkLength(numbers(), others);
      } else if (others != 0) {
        add(new float[others]);
      }
    }

    Tensor tensor() {
      if (sum == null) {
        sum = NamedTensors.empty("sum", "float32", 0);
      }
      return sum.get("sum");
    }

    private FloatBuffer values() {
      return sum.get("sum").data().asFloatBuffer();
    }

    @Override
    public void close() {
      if (sum != null) {
        sum.close();
      }
    }
  }
}
