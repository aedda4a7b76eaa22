package io.harmonics.spark;

import io.harmonics.HarmonicsException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.shuffle.FetchFailedException;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Tasks that run at the same time, one per partition of an RDD, and may talk to each other.
 *
 * <p>They form a barrier stage that writes a shuffle, since Spark starts such a stage again when an
 * executor dies (a barrier stage that only returns results would end the job). What goes wrong
 * inside a task is no reason to start again: it ends the job with the task's own words.
 */
final class Gang {
  /** Errors that tell of a peer that went away rather than of something here. */
  private static final Set<String> CONSEQUENCES =
      Set.of("aborted", "unavailable", "deadline_exceeded", "cancelled");

  /** What a member does with its rows. The results may be made as they are asked for. */
  @FunctionalInterface
  interface Work<T, R extends Serializable> extends Serializable {
    Iterator<R> run(GangMember member, Iterator<T> rows) throws Exception;
  }

  /** The same with one result. */
  @FunctionalInterface
  interface OneResult<T, R extends Serializable> extends Serializable {
    R run(GangMember member, Iterator<T> rows) throws Exception;
  }

  /** A result of a member, or what went wrong in it or in another. */
  record Outcome<R extends Serializable>(int member, R result, String error)
      implements Serializable {
    R get() {
      if (error != null) {
        throw new IllegalStateException(error);
      }
      return result;
    }
  }

  private Gang() {}

  /** The results of all members in order. An error of one is an {@link IllegalStateException}. */
  static <T, R extends Serializable> List<R> run(
      String job, JavaRDD<T> rows, OneResult<T, R> work) {
    List<Outcome<R>> all =
        new ArrayList<>(
            outcomes(job, rows, (GangMember member, Iterator<T> each) ->
                    List.of(work.run(member, each)).iterator())
                .repartition(1)
                .collect());
    all.sort(Comparator.comparingInt(Outcome::member));
    return all.stream().map(Outcome::get).toList();
  }

  /**
   * The results of all members. A shuffle must follow, or a lost executor ends the job. More
   * members than the cluster has task slots are an {@link IllegalStateException}.
   */
  static <T, R extends Serializable> JavaRDD<Outcome<R>> outcomes(
      String job, JavaRDD<T> rows, Work<T, R> work) {
    HarmonicsPlugin.board(); // an error now rather than in every task
    int size = rows.getNumPartitions();
    Slots.need(rows.context(), size);
    RDD<Outcome<R>> outcomes = rows.rdd().barrier().mapPartitions(
        new Task<>(job, size, work), false, ClassTag$.MODULE$.apply(Outcome.class));
    return new JavaRDD<>(outcomes, outcomes.elementClassTag());
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
      GangMember member = new GangMember(job, TaskContext.getPartitionId(), size);
      Iterator<T> each = CollectionConverters.asJava(rows);
      return CollectionConverters.asScala(new Outcomes<>(member, () -> work.run(member, each)));
    }
  }

  /** The results of a member; the last one may be an error. */
  private static final class Outcomes<R extends Serializable> implements Iterator<Outcome<R>> {
    private final GangMember member;
    private final Callable<Iterator<R>> start;
    private Iterator<R> results;
    private Outcome<R> ready;
    private boolean done;

    Outcomes(GangMember member, Callable<Iterator<R>> start) {
      this.member = member;
      this.start = start;
    }

    @Override
    public boolean hasNext() {
      if (ready == null && !done) {
        ready = attempt();
        done = ready == null || ready.error() != null;
      }
      return ready != null;
    }

    @Override
    public Outcome<R> next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      Outcome<R> given = ready;
      ready = null;
      return given;
    }

    /** The next result; null at the end. */
    private Outcome<R> attempt() {
      try {
        if (results == null) {
          results = start.call();
        }
        return results.hasNext() ? new Outcome<>(member.index(), results.next(), null) : null;
      } catch (HarmonicsException error) {
        if (!CONSEQUENCES.contains(error.code())) {
          return told(error);
        }
        String cause = member.whatFailed();
        if (cause.isEmpty()) {
          throw error; // a peer died: Spark starts the stage again
        }
        return new Outcome<>(member.index(), null, cause);
      } catch (GangFailure failure) {
        return new Outcome<>(member.index(), null, failure.getMessage());
      } catch (TaskKilledException killed) {
        throw killed;
      } catch (Exception error) {
        if (error instanceof FetchFailedException) {
          throw Gang.<RuntimeException>unchecked(error); // Spark makes the rows anew
        }
        return told(error);
      }
    }

    private Outcome<R> told(Exception error) {
      String text = error.getMessage() == null ? error.toString() : error.getMessage();
      return new Outcome<>(member.index(), null, member.failed(text));
    }
  }

  /** The exception itself, which Spark must see. */
  @SuppressWarnings("unchecked")
  private static <E extends Exception> E unchecked(Exception error) throws E {
    throw (E) error;
  }
}
