package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What a job cannot be told, and how it says so. */
class TrainingJobTest {
  private static String told(Executable wrong) {
    return assertThrows(IllegalArgumentException.class, wrong).getMessage();
  }

  @Test
  void numbersThatMakeNoSenseAreRefusedAtOnce() {
    TrainingJob job = new TrainingJob();
    assertEquals("epochs: at least 1, not 0", told(() -> job.epochs(0)));
    assertEquals("epochs: at least 1, not -1", told(() -> job.epochs(-1)));
    assertEquals("parts: at least 1, not -1", told(() -> job.parts(-1)));
    assertEquals("replicas: at least 1, not 0", told(() -> job.replicas(0)));
    assertEquals("samples in a batch: at least 1, not 0", told(() -> job.batchSize(0)));
    assertEquals("bytes of the cache: at least 0, not -1", told(() -> job.cache(-1)));
    assertEquals(
        "steps between checkpoints: at least 1, not 0", told(() -> job.checkpoint("file", 0)));
    assertEquals(
        "base port 70000: ports are numbers from 1 to 65535", told(() -> job.basePort(70_000)));
    assertEquals("base port -5: ports are numbers from 1 to 65535", told(() -> job.basePort(-5)));
  }

  @Test
  void unknownNamesAreToldWithThoseThatThereAre() {
    assertEquals(
        "there is no carrier 'pigeon'; there are auto, shared_memory, tcp, grpc",
        told(() -> Carrier.named("pigeon")));
    assertEquals(Carrier.SHARED_MEMORY, Carrier.named("shared_memory"));
    assertEquals(
        "there is no backend 'tpu'; there are cpu, gpu, fpga, auto",
        told(() -> new Deployment().backend("tpu")));
    assertEquals(
        "a backend for part 2, but the job has the parts 0 to 1",
        told(() -> new Deployment().part(2, "cpu").check(2)));
  }
}
