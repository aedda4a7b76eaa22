package io.harmonics;

import java.nio.charset.StandardCharsets;

/** What went wrong in native code: the text of the C++ error, and its code. */
public final class HarmonicsException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final String[] CODES = {
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found",
    "already_exists", "permission_denied", "resource_exhausted", "failed_precondition", "aborted",
    "out_of_range", "unimplemented", "internal", "unavailable", "data_loss", "unauthenticated"
  };

  private final int code;

  HarmonicsException(int code, byte[] message) {
    super(new String(message, StandardCharsets.UTF_8));
    this.code = code;
  }

  /** The name of the error's code, for instance {@code invalid_argument}. */
  public String code() {
    return code >= 0 && code < CODES.length ? CODES[code] : "unknown";
  }
}
