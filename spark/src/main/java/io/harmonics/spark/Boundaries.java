package io.harmonics.spark;

import io.harmonics.DistributedScheduler;
import io.harmonics.HarmonicGraph;
import io.harmonics.Reduction;
import io.harmonics.Transport;
import java.util.Map;
import java.util.TreeMap;

/** Connects a task's part with the parts and copies that other tasks have. */
final class Boundaries {
  private final GangMember member;
  private final Layout layout;
  private final TrainingJob job;

  Boundaries(GangMember member, Layout layout, TrainingJob job) {
    this.member = member;
    this.layout = layout;
    this.job = job;
  }

  /**
   * Boundaries to the neighbouring parts of a copy and, where the part learns in several copies,
   * the ways over which gradients are summed. All members meet twice.
   */
  void connect(HarmonicGraph part, DistributedScheduler scheduler, boolean learning) {
    Address own = member.here();
    Endpoints ends = new Endpoints(job, member, own, member.meet(own));
    int me = member.index();
    for (String name : part.entering()) {
      int sender = layout.inCopyOf(me, layout.senders().get(name));
      scheduler.bindProducer(name, ends.taking(layout.place(name, me), sender));
    }
    int replica = layout.replicaOf(me);
    Map<Integer, Transport> peers = new TreeMap<>();
    int[] others = learning ? Reduction.TREE.peers(replica, layout.replicas()) : new int[0];
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
    if (learning && layout.replicas() > 1) {
      scheduler.joinReplicas(Reduction.TREE, replica, layout.replicas(), peers);
    }
  }

  /** The name that both ends of a way between two copies of this part have. */
  private String wayTo(int other) {
    int replica = layout.replicaOf(member.index());
    int part = layout.partOf(member.index());
    return "sum" + part + "/" + Math.min(replica, other) + "-" + Math.max(replica, other);
  }
}
