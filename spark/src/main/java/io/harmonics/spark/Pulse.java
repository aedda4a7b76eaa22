package io.harmonics.spark;

import io.harmonics.Engine;
import io.harmonics.HarmonicsException;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;

/**
 * Keeps a task that waits inside native code in touch: tells the driver how far it is, and stops
 * the work when another member failed or when Spark wants the task to end. A thread of its own does
 * so twice a second.
 */
final class Pulse implements AutoCloseable {
  private static final long PERIOD_MS = 500;

  private final GangMember member;
  private final TaskContext task = TaskContext.get();
  private final Engine engine;
  private final Thread thread = new Thread(this::beat, "harmonics-pulse");
  /** Whether the thread is to end; it may have ended before. */
  private boolean closed;
  private boolean ended;
  private volatile RuntimeException reason;

  /** Uses the engine from another thread until {@link #close}. */
  Pulse(GangMember member, Engine engine) {
    this.member = member;
    this.engine = engine;
    thread.setDaemon(true);
    thread.start();
  }

  /** Throws why the work was stopped, if it was. */
  void check() {
    RuntimeException why = reason;
    if (why != null) {
      throw why;
    }
  }

  /**
   * What an error of native code means: why the work was stopped, if it was; the error itself, if
   * it came over a boundary, since then another member may be to blame; or else one that nobody but
   * this member has caused.
   */
  RuntimeException explain(HarmonicsException error) {
    if (reason != null) {
      return reason;
    }
    return engine.traffic().number("broken") > 0
        ? error
        : new IllegalStateException(error.getMessage(), error);
  }

  /** A second call does nothing. */
  @Override
  public void close() {
    synchronized (this) {
      if (ended) {
        return;
      }
      ended = true;
      closed = true;
      notifyAll();
    }
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException again) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    } else {
      tellLastStep();
    }
  }

  private void tellLastStep() {
    try {
      member.tell(engine.lastStep());
    } catch (RuntimeException known) {
      // Another member's failure, or the driver's: the job ends with it anyway.
    }
  }

  private void beat() {
    while (waitForNext()) {
      try {
        if (task.isInterrupted()) {
          throw new TaskKilledException("the gang starts again");
        }
        member.tell(engine.lastStep());
      } catch (RuntimeException why) {
        reason = why;
        engine.stop();
        return;
      }
    }
  }

  private synchronized boolean waitForNext() {
    try {
      if (!closed) {
        wait(PERIOD_MS);
      }
    } catch (InterruptedException interrupted) {
      closed = true;
    }
    return !closed;
  }
}
