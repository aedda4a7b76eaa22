package io.harmonics;

import java.util.Map;

/** A whole graph in this process. */
public final class CycleRuntime extends Engine {
  public CycleRuntime(HarmonicGraph graph) {
    this(graph, Map.of());
  }

  /** With settings by the names of a .harp file's train section: {@code lr}, {@code seed} … */
  public CycleRuntime(HarmonicGraph graph, Map<String, ?> settings) {
    super(Native.runtimeNew(graph.handle(), settings(settings)));
  }
}
