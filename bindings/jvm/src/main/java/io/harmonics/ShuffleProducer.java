package io.harmonics;

/** Samples of another producer in the run's own random order, anew for every epoch. */
public final class ShuffleProducer extends Producer {
  public ShuffleProducer(Producer source) {
    super(Native.producerShuffle(source.handle()));
  }
}
