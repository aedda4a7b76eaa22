package io.harmonics.spark;

import io.harmonics.DistributedScheduler;
import io.harmonics.HarmonicGraph;
import io.harmonics.NamedTensors;
import io.harmonics.Producer;
import io.harmonics.Reduction;
import io.harmonics.Report;
import io.harmonics.Transport;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.TaskContext;

/** What one task of a training job does: one part of one copy of the graph. */
final class TrainingTask {
  /** How often the driver is told of steps. */
  private static final long TELL_NANOS = 200_000_000L;

  /**
   * What a task answers.
   *
   * @param weights of its part; empty in all copies but the first
   */
  record Answer(String report, String process, ArrayList<NamedArray> weights)
      implements Serializable {}

  private final GangMember member;
  private final Layout layout;
  private final TrainingJob job;

  TrainingTask(GangMember member, Layout layout, TrainingJob job) {
    this.member = member;
    this.layout = layout;
    this.job = job;
  }

  Answer run() throws Exception {
    byte[] blob = layout.blobs().get(layout.partOf(member.index()));
    try (HarmonicGraph part = HarmonicGraph.decode(blob);
        TaskData data = new TaskData(job);
        DistributedScheduler scheduler = new DistributedScheduler(List.of(part), settings())) {
      connect(part, scheduler);
      for (String name : part.producers()) {
        Producer batches = data.batches(name);
        if (batches != null) {
          scheduler.bindProducer(name, batches);
        }
      }
      Report report = fit(scheduler);
      ArrayList<NamedArray> weights = new ArrayList<>();
      if (layout.replicaOf(member.index()) == 0) {
        try (NamedTensors parameters = scheduler.parameters()) {
          weights = NamedArray.of(parameters);
        }
      }
      return new Answer(
          report.json(), Long.toString(ProcessHandle.current().pid()), weights);
    }
  }

  private Map<String, Object> settings() {
    Map<String, Object> settings = new LinkedHashMap<>(job.settings());
    settings.put("run", member.run());
    settings.putIfAbsent("threads", Math.max(1, TaskContext.get().cpus()));
    return settings;
  }

  /** Boundaries to the neighbouring parts, and the ways over which gradients are summed. */
  private void connect(HarmonicGraph part, DistributedScheduler scheduler) {
    Address own = member.here();
    Endpoints ends = new Endpoints(job, member, own, member.meet(own));
    int me = member.index();
    for (String name : part.entering()) {
      int sender = layout.inCopyOf(me, layout.senders().get(name));
      scheduler.bindProducer(name, ends.taking(layout.place(name, me), sender));
    }
    int replica = layout.replicaOf(me);
    Map<Integer, Transport> peers = new TreeMap<>();
    int[] others = Reduction.TREE.peers(replica, layout.replicas());
    for (int other : others) {
      if (other > replica) {
        peers.put(other, ends.taking(wayTo(other), layout.sibling(me, other)));
      }
    }
    Address[] all = member.meet(own.listeningAt(ends.port()));
    for (String name : part.leaving()) {
      int taker = layout.inCopyOf(me, layout.takers().get(name));
      scheduler.bindConsumer(name, ends.sending(layout.place(name, me), all[taker]));
    }
    for (int other : others) {
      if (other < replica) {
        peers.put(other, ends.sending(wayTo(other), all[layout.sibling(me, other)]));
      }
    }
    if (layout.replicas() > 1) {
      scheduler.joinReplicas(Reduction.TREE, replica, layout.replicas(), peers);
    }
  }

  /** The name that both ends of a way between two copies of this part have. */
  private String wayTo(int other) {
    int replica = layout.replicaOf(member.index());
    int part = layout.partOf(member.index());
    return "sum" + part + "/" + Math.min(replica, other) + "-" + Math.max(replica, other);
  }

  private Report fit(DistributedScheduler scheduler) {
    Map<String, Object> options = new LinkedHashMap<>();
    String checkpoint = checkpoint();
    long done = 0;
    if (!checkpoint.isEmpty()) {
      options.put("checkpoint", checkpoint);
      options.put("checkpoint_every", job.checkpointEvery());
      // All tasks of a first attempt start anew, whatever lies there.
      if (member.attempt() > 0 && scheduler.resume(Path.of(checkpoint))) {
        done = scheduler.progress().number("epochs");
      }
    }
    long[] told = {0};
    return scheduler.fit(
        job.epochs() - done,
        options,
        step -> {
          if (System.nanoTime() - told[0] > TELL_NANOS) {
            told[0] = System.nanoTime();
            member.tell(step.number("step"));
          }
          return !TaskContext.get().isInterrupted();
        });
  }

  /** Every copy keeps its own: they are equal, but are written at the same time. */
  private String checkpoint() {
    int replica = layout.replicaOf(member.index());
    return job.checkpoint().isEmpty() || replica == 0
        ? job.checkpoint()
        : job.checkpoint() + "." + replica;
  }
}
