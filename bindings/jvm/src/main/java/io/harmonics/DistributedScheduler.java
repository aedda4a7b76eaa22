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
}
