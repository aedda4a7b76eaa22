package io.harmonics.spark;

/** What carries tensors between the tasks of a job. */
public enum Carrier {
  /** A message bus inside one executor, shared memory on one machine, TCP between machines. */
  AUTO,
  SHARED_MEMORY,
  TCP,
  GRPC;

  /** By its name in small letters; another one is an error that lists those that there are. */
  public static Carrier named(String name) {
    for (Carrier each : values()) {
      if (each.name().equalsIgnoreCase(name)) {
        return each;
      }
    }
    throw new IllegalArgumentException(
        "there is no carrier '" + name + "'; there are auto, shared_memory, tcp, grpc");
  }
}
