package io.harmonics;

/**
 * Samples of another producer, kept in memory from the first time on. Only what is the same in
 * every epoch can be kept: shuffling and random changes come after it.
 */
public final class CacheProducer extends Producer {
  /** Samples that take more than {@code limitBytes} are not kept, and one warning says so. */
  public CacheProducer(Producer source, long limitBytes) {
    super(Native.producerCache(source.handle(), atLeastZero(limitBytes)));
  }

  private static long atLeastZero(long bytes) {
    if (bytes < 0) {
      throw new IllegalArgumentException("a cache of " + bytes + " bytes makes no sense");
    }
    return bytes;
  }
}
