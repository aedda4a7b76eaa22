package io.harmonics;

import java.lang.ref.Cleaner;
import java.util.function.LongConsumer;

/** Something that lives in native memory until it is closed, or at the latest until it is garbage. */
public abstract class NativeObject implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final Cleaner.Cleanable cleanable;
  private final long handle;
  private volatile boolean closed;

  NativeObject(long handle, LongConsumer free) {
    this.handle = handle;
    this.cleanable = CLEANER.register(this, () -> free.accept(handle));
  }

  /** The native object; after {@link #close} an {@link IllegalStateException}. */
  final long handle() {
    if (closed) {
      throw new IllegalStateException(getClass().getSimpleName() + " is closed");
    }
    return handle;
  }

  /** Gives the native memory back; a second call does nothing. */
  @Override
  public void close() {
    closed = true;
    cleanable.clean();
  }
}
