package io.harmonics;

/** Samples of another producer in batches. */
public final class BatchProducer extends Producer {
  public BatchProducer(Producer source, long batchSize) {
    super(Native.producerBatch(source.handle(), batchSize));
  }
}
