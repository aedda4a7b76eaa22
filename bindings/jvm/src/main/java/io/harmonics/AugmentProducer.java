package io.harmonics;

import java.util.Map;

/**
 * Float32 samples of another producer, changed at random and normalised: other ones in every epoch,
 * the same ones in every run.
 */
public final class AugmentProducer extends Producer {
  /**
   * {@code options}: {@code crop_padding} (zeros around an image before its size is cut out of it
   * again), {@code flip}, {@code noise} (its standard deviation), {@code mean} and {@code
   * deviation} (lists), {@code seed}.
   */
  public AugmentProducer(Producer source, Map<String, ?> options) {
    super(Native.producerAugment(source.handle(), Native.utf8(Json.write(options))));
  }
}
