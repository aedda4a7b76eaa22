package io.harmonics;

import java.util.List;
import java.util.Map;

/** One part of a graph in this process, the other parts in others. */
public final class RemoteScheduler extends Engine {
  public RemoteScheduler(
      HarmonicGraph part, List<RemoteBinding> producers, List<RemoteBinding> consumers) {
    this(part, producers, consumers, Map.of());
  }

  /**
   * Settings may also hold {@code run}, {@code token}, {@code first_contact_s}, {@code
   * deadline_s}.
   */
  public RemoteScheduler(
      HarmonicGraph part,
      List<RemoteBinding> producers,
      List<RemoteBinding> consumers,
      Map<String, ?> settings) {
    super(
        Native.remoteNew(
            part.handle(), urls(producers), urls(consumers), settings(settings)));
  }

  private static byte[][] urls(List<RemoteBinding> bindings) {
    return Native.utf8(bindings.stream().map(RemoteBinding::url).toList());
  }
}
