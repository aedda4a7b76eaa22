package io.harmonics.spark;

import io.harmonics.HarmonicsException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Tasks that run at the same time, one per partition of an RDD, and may talk to each other.
 *
 * <p>They form a barrier stage that writes a shuffle, since Spark starts such a stage again when an
 * executor dies (a barrier stage that only returns results would end the job). What goes wrong inside
 * a task is no reason to start again: it ends the job with the task's own words.
 */
final class Gang {
  /** Errors that tell of a peer that went away rather than of something here. */
  private static final Set<String> CONSEQUENCES = Set.of("aborted", "unavailable", "deadline_exceeded");

  /** What a member does with its rows. */
  @FunctionalInterface
  interface Work<T, R extends Serializable> extends Serializable {
    R run(GangMember member, Iterator<T> rows) throws Exception;
  }

  private record Outcome<R extends Serializable>(int member, R result, String error)
      implements Serializable {}

  private Gang() {}

  /** The results of all members in order. An error of one is an {@link IllegalStateException}. */
  static <T, R extends Serializable> List<R> run(String job, JavaRDD<T> rows, Work<T, R> work) {
    HarmonicsPlugin.board(); // an error now rather than in every task
    int size = rows.getNumPartitions();
    RDD<Outcome<R>> outcomes =
        rows.rdd()
            .barrier()
            .mapPartitions(new Task<>(job, size, work), false, ClassTag$.MODULE$.apply(Outcome.class));
    List<Outcome<R>> all =
        new ArrayList<>(new JavaRDD<>(outcomes, outcomes.elementClassTag()).repartition(1).collect());
    all.sort(Comparator.comparingInt(Outcome::member));
    for (Outcome<R> outcome : all) {
      if (outcome.error() != null) {
        throw new IllegalStateException("task " + outcome.member() + ": " + outcome.error());
      }
    }
    return all.stream().map(Outcome::result).toList();
  }

  private static final class Task<T, R extends Serializable>
      extends AbstractFunction1<scala.collection.Iterator<T>, scala.collection.Iterator<Outcome<R>>>
      implements Serializable {
    private static final long serialVersionUID = 1L;

    private final String job;
    private final int size;
    private final Work<T, R> work;

    Task(String job, int size, Work<T, R> work) {
      this.job = job;
      this.size = size;
      this.work = work;
    }

    @Override
    public scala.collection.Iterator<Outcome<R>> apply(scala.collection.Iterator<T> rows) {
      int index = org.apache.spark.TaskContext.getPartitionId();
      GangMember member = new GangMember(job, index, size);
      Outcome<R> outcome = attempt(member, CollectionConverters.asJava(rows));
      return CollectionConverters.asScala(List.of(outcome).iterator());
    }

    private Outcome<R> attempt(GangMember member, Iterator<T> rows) {
      try {
        return new Outcome<>(member.index(), work.run(member, rows), null);
      } catch (HarmonicsException error) {
        if (!CONSEQUENCES.contains(error.code())) {
          return told(member, error);
        }
        String cause = member.whatFailed();
        if (cause.isEmpty()) {
          throw error; // a peer died: Spark starts the stage again
        }
        return new Outcome<>(member.index(), null, cause);
      } catch (TaskKilledException killed) {
        throw killed;
      } catch (Exception error) {
        return told(member, error);
      }
    }

    private Outcome<R> told(GangMember member, Exception error) {
      String text = error.getMessage() == null ? error.toString() : error.getMessage();
      member.failed(text);
      return new Outcome<>(member.index(), null, text);
    }
  }
}
