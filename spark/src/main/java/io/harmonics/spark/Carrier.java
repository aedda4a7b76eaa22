package io.harmonics.spark;

/** What carries tensors between the tasks of a job. */
public enum Carrier {
  /** A message bus inside one executor, shared memory on one machine, TCP between machines. */
  AUTO,
  SHARED_MEMORY,
  TCP,
  GRPC
}
