package io.harmonics;

import java.util.Map;

/**
 * One of several ranks, in threads or processes, that sum tensors: the same bits come out in all of
 * them. All ranks sum equally often, with the same names, shapes and step.
 */
public final class Reducer extends NativeObject {
  /**
   * {@code peers} are the ends to those that {@link Reduction#peers} names; they are taken over.
   */
  public Reducer(Reduction order, int rank, int ranks, Map<Integer, Transport> peers) {
    super(Native.reducerNew(
              order.label(), rank, ranks, Transport.ranks(peers), Transport.taken(peers)),
        Native::reducerFree);
  }

  /** The sums of all ranks' tensors, float32 or float64. */
  public NamedTensors sum(Map<String, Tensor> own, long step) {
    Arguments all = new Arguments(own);
    return new NamedTensors(
        Native.reducerSum(
            handle(), all.names(), all.dtypes(), all.shapes(), all.data(), step));
  }
}
