package io.harmonics.spark;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;

/** What the tasks of {@link HarmonicsSpark#inferProven} computed, and their proofs. */
public final class ProvenOutputs {
  private final List<float[]> rows;
  private final List<Proof> proofs;
  private final Set<String> processes;

  ProvenOutputs(List<float[]> rows, List<Proof> proofs, Set<String> processes) {
    this.rows = List.copyOf(rows);
    this.proofs = List.copyOf(proofs);
    this.processes = Set.copyOf(processes);
  }

  /** The outputs of all rows in their order. */
  public List<float[]> rows() {
    return rows;
  }

  /** What the tasks signed last, a line each, in the order of the parts. */
  public List<String> proofs() {
    return Proof.lines(proofs);
  }

  /**
   * Writes the chains with the proofs, a file for each task, and answers them: {@code harmonics
   * verify} takes them all. The folder is made where it is missing.
   */
  public List<Path> saveChains(Path folder) throws IOException {
    return Proof.save(proofs, folder);
  }

  /** Process ids of the executors that took part. */
  public Set<String> processes() {
    return processes;
  }
}
