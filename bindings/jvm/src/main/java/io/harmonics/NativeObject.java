package io.harmonics;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongConsumer;

/**
 * Something that lives in native memory until it is closed, or at the latest until it is garbage.
 */
public abstract class NativeObject implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final Cleaner.Cleanable cleanable;
  private final long handle;
  private final AtomicBoolean owned;
  private volatile boolean closed;

  NativeObject(long handle, LongConsumer free) {
    this.handle = handle;
    AtomicBoolean freeable = new AtomicBoolean(true);
    this.owned = freeable;
    this.cleanable =
        CLEANER.register(
            this,
            () -> {
              if (freeable.get()) {
                free.accept(handle);
              }
            });
  }

  /** The native object; after {@link #close} an {@link IllegalStateException}. */
  final long handle() {
    if (closed) {
      throw new IllegalStateException(getClass().getSimpleName() + " is closed");
    }
    return handle;
  }

  /** Leaves the native object to native code: this one is closed, and nothing is freed. */
  final long release() {
    long released = handle();
    closed = true;
    owned.set(false);
    return released;
  }

  /** Gives the native memory back; a second call does nothing. */
  @Override
  public void close() {
    closed = true;
    cleanable.clean();
  }
}
