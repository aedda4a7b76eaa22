package io.harmonics.spark;

import io.harmonics.DistributedScheduler;
import io.harmonics.HarmonicGraph;
import io.harmonics.HarmonicsException;
import io.harmonics.NamedTensors;
import io.harmonics.Producer;
import io.harmonics.Report;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import scala.Tuple2;

/** What one task of a training job does: one part of one copy of the graph. */
final class TrainingTask {
  /**
   * What a task answers.
   *
   * @param traffic over its ends
   * @param start steps that were done before it began
   * @param proof of a secure run; null in another
   * @param weights of its part; empty in all copies but the first
   */
  record Answer(
      String report,
      String process,
      String traffic,
      long start,
      Proof proof,
      ArrayList<NamedArray> weights)
      implements Serializable {}

  private final GangMember member;
  private final Layout layout;
  private final TrainingJob job;
  private final FrameRows.Plan plan;

  /** {@code plan} says what the rows of the job's data frame are; null when it has none. */
  TrainingTask(GangMember member, Layout layout, TrainingJob job, FrameRows.Plan plan) {
    this.member = member;
    this.layout = layout;
    this.job = job;
    this.plan = plan;
  }

  Answer run(Iterator<Tuple2<Long, byte[]>> rows) throws Exception {
    forgetOthers();
    int number = layout.partOf(member.index());
    byte[] blob = layout.blobs().get(number);
    try (HarmonicGraph part = HarmonicGraph.decode(blob);
        TaskData data = new TaskData(job, kept(part, rows));
        Proof.Place place =
            job.secureKeys == null ? null : new Proof.Place(job.checkpoint, number);
        DistributedScheduler scheduler = prepared(part, data, place)) {
      new Boundaries(member, layout, job).connect(part, scheduler, true);
      Report report = fit(scheduler);
      ArrayList<NamedArray> weights = new ArrayList<>();
      if (layout.replicaOf(member.index()) == 0) {
        try (NamedTensors parameters = scheduler.parameters()) {
          weights = NamedArray.of(parameters);
        }
      }
      return new Answer(
          report.json(),
          Long.toString(ProcessHandle.current().pid()),
          scheduler.traffic().json(),
          Math.max(0, scheduler.firstStep() - 1),
          place == null ? null : place.proof(scheduler),
          weights);
    }
  }

  /**
   * A first attempt starts anew, whatever lies there; what another job left must not be what a
   * second attempt goes on from. The checkpoint is gone before the first step, since all tasks meet
   * later.
   */
  private void forgetOthers() throws IOException {
    if (member.attempt() == 0 && !job.checkpoint.isEmpty()) {
      Files.deleteIfExists(Path.of(checkpoint()));
    }
  }

  /** Before the others are met: whatever is wrong up to here is this task's own failure. */
  private DistributedScheduler prepared(HarmonicGraph part, TaskData data, Proof.Place place)
      throws IOException {
    try {
      DistributedScheduler scheduler = new DistributedScheduler(List.of(part), settings(place));
      for (String name : part.producers()) {
        Producer batches = data.batches(name);
        if (batches != null) {
          scheduler.bindProducer(name, batches);
        }
      }
      return scheduler;
    } catch (HarmonicsException error) {
      throw new IllegalStateException(error.getMessage(), error);
    }
  }

  private RowFile kept(HarmonicGraph part, Iterator<Tuple2<Long, byte[]>> rows)
      throws IOException {
    List<Samples> fields = plan == null ? List.of() : plan.of(part);
    return fields.isEmpty() ? null : new RowFile(fields, plan.count(), rows);
  }

  private Map<String, Object> settings(Proof.Place place) {
    Map<String, Object> settings = new LinkedHashMap<>(job.settings);
    if (job.deployment != null) {
      Map<String, String[]> resources = new LinkedHashMap<>();
      TaskContext.get().resourcesJMap().forEach(
          (name, its) -> resources.put(name, its.addresses()));
      settings.putAll(job.deployment.settings(layout.partOf(member.index()), resources));
    }
    if (place != null) {
      settings.putAll(place.settings(job.secureKeys));
    }
    settings.put("run", member.run());
    settings.putIfAbsent("threads", Math.max(1, TaskContext.get().cpus()));
    return settings;
  }

  /** Trains, in touch with the driver, and stops when another member fails. */
  private Report fit(DistributedScheduler scheduler) {
    try (Pulse pulse = new Pulse(member, scheduler)) {
      try {
        Report report = fitOn(scheduler);
        scheduler.seal();
        pulse.check();
        return report;
      } catch (HarmonicsException error) {
        throw pulse.explain(error);
      }
    }
  }

  private Report fitOn(DistributedScheduler scheduler) {
    Map<String, Object> options = new LinkedHashMap<>();
    String checkpoint = checkpoint();
    long done = 0;
    if (!checkpoint.isEmpty()) {
      options.put("checkpoint", checkpoint);
      options.put("checkpoint_every", job.checkpointEvery);
      if (member.attempt() > 0 && scheduler.resume(Path.of(checkpoint))) {
        done = scheduler.progress().number("epochs");
      }
    }
    return scheduler.fit(job.epochs - done, options, null);
  }

  /** Every copy keeps its own: they are equal, but are written at the same time. */
  private String checkpoint() {
    int replica = layout.replicaOf(member.index());
    return job.checkpoint.isEmpty() || replica == 0
        ? job.checkpoint
        : job.checkpoint + "." + replica;
  }
}
