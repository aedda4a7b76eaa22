package io.harmonics;

/** In which order the values of several replicas are added; each order is fixed. */
public enum Reduction {
  CHAIN("chain"),
  TREE("tree"),
  RING("ring");

  private final String label;

  Reduction(String label) {
    this.label = label;
  }

  byte[] label() {
    return Native.utf8(label);
  }

  /** The replicas that {@code rank} of {@code ranks} talks to, in rising order. */
  public int[] peers(int rank, int ranks) {
    return Native.reductionPeers(label(), rank, ranks);
  }
}
