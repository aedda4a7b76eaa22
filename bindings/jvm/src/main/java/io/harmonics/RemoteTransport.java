package io.harmonics;

/** What carries a boundary between processes. */
public enum RemoteTransport {
  TCP("tcp"),
  GRPC("grpc"),
  FLIGHT("flight"),
  SHARED_MEMORY("shm");

  private final String scheme;

  RemoteTransport(String scheme) {
    this.scheme = scheme;
  }

  /** The scheme of an endpoint URL. */
  public String scheme() {
    return scheme;
  }
}
