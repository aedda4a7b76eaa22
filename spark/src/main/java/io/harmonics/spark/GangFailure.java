package io.harmonics.spark;

/** What another member of the gang said went wrong there. */
final class GangFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;

  GangFailure(String text) {
    super(text);
  }
}
