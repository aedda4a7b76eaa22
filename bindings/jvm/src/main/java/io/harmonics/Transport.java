package io.harmonics;

import java.time.Duration;
import java.util.Map;

/** One end of a boundary: tensors arrive in the order sent, each exactly once. */
public class Transport extends NativeObject {
  Transport(long handle) {
    super(handle, Native::endFree);
  }

  /** Begins to listen or to connect. Settings: {@code run}, {@code token}. */
  public static Transport open(RemoteBinding binding, Map<String, ?> settings) {
    return new Transport(Native.endOpen(Native.utf8(binding.url()), Engine.settings(settings)));
  }

  static int[] ranks(Map<Integer, Transport> peers) {
    return peers.keySet().stream().mapToInt(Integer::intValue).toArray();
  }

  /** The native ends, which belong to native code from now on. */
  static long[] taken(Map<Integer, Transport> peers) {
    return peers.values().stream().mapToLong(NativeObject::release).toArray();
  }

  public void send(Tensor tensor, long step, Duration timeout) {
    Arguments all = new Arguments(Map.of("tensor", tensor));
    Native.endSend(
        handle(), all.names(), all.dtypes(), all.shapes(), all.data(), step, timeout.toMillis());
  }

  /** The next tensor, named {@code tensor}; null once the other end has closed. */
  public NamedTensors receive(Duration timeout) {
    long tensors = Native.endReceive(handle(), timeout.toMillis(), new long[1]);
    return tensors == 0 ? null : new NamedTensors(tensors);
  }

  /** Waits until the other end has everything that was sent, then lets go. */
  public void finish(Duration timeout) {
    Native.endClose(handle(), timeout.toMillis());
  }

  /** The port that a listening end got. */
  public int port() {
    return Native.endPort(handle());
  }

  /** Counters of this end. */
  public Report stats() {
    return new Report(Native.text(Native.endStats(handle())));
  }
}
