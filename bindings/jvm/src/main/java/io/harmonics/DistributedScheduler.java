package io.harmonics;

import java.util.List;
import java.util.Map;

/** The parts of a graph in this process, a thread each. */
public final class DistributedScheduler extends Engine {
  public DistributedScheduler(List<HarmonicGraph> parts) {
    this(parts, Map.of());
  }

  public DistributedScheduler(List<HarmonicGraph> parts, Map<String, ?> settings) {
    super(
        Native.distributedNew(
            parts.stream().mapToLong(HarmonicGraph::handle).toArray(), settings(settings)));
  }

  /** A boundary that enters the parts here, over an end that the scheduler takes over. */
  public void bindProducer(String boundary, Transport end) {
    Native.engineBindEnd(handle(), Native.utf8(boundary), true, end.release());
  }

  /** A boundary that leaves the parts here, over an end that the scheduler takes over. */
  public void bindConsumer(String boundary, Transport end) {
    Native.engineBindEnd(handle(), Native.utf8(boundary), false, end.release());
  }

  /**
   * Makes this one of several replicas that learn together; {@code peers} are the ends to those
   * that {@link Reduction#peers} names, which the scheduler takes over.
   */
  public void joinReplicas(Reduction order, int rank, int ranks, Map<Integer, Transport> peers) {
    Native.engineJoinReplicas(
        handle(), order.label(), rank, ranks, Transport.ranks(peers), Transport.taken(peers));
  }
}
