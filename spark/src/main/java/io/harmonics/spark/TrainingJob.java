package io.harmonics.spark;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a training job is told beside its graph. Every setting has a default, except the data.
 *
 * <pre>{@code
 * TrainingJob job = new TrainingJob()
 *     .bind("image", "csv:/data/digits.csv?columns=0-63&scale=0.0625")
 *     .bind("label", "csv:/data/digits.csv?columns=64&dtype=int64")
 *     .epochs(30)
 *     .set("lr", 0.005);
 * }</pre>
 */
public final class TrainingJob implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Map<String, String> sources = new LinkedHashMap<>();
  private final Map<String, Object> settings = new LinkedHashMap<>();
  private int parts = 2;
  private int replicas = 2;
  private long epochs = 10;
  private long batchSize = 32;
  private boolean shuffle = true;
  private Carrier carrier = Carrier.AUTO;
  private boolean compress;
  private int basePort = 40400;
  private String checkpoint = "";
  private long checkpointEvery = 100;

  /**
   * Where a producer's samples come from: a source of the native library whose path every executor
   * can read, or one with the URI of a Hadoop file system, {@code csv:hdfs://host/digits.csv}.
   */
  public TrainingJob bind(String producer, String source) {
    sources.put(producer, source);
    return this;
  }

  /** A setting of a .harp file's train section: {@code lr}, {@code optimizer}, {@code seed} … */
  public TrainingJob set(String name, Object value) {
    settings.put(name, value);
    return this;
  }

  /** Into how many parts a layer-parallel or hybrid job cuts the graph; 2 unless said. */
  public TrainingJob parts(int count) {
    parts = count;
    return this;
  }

  /** How many copies a data-parallel or hybrid job trains; 2 unless said. */
  public TrainingJob replicas(int count) {
    replicas = count;
    return this;
  }

  public TrainingJob epochs(long count) {
    epochs = count;
    return this;
  }

  /** Samples per step, of all replicas together. */
  public TrainingJob batchSize(long samples) {
    batchSize = samples;
    return this;
  }

  /** Whether the order of the samples is drawn anew for every epoch; true unless said. */
  public TrainingJob shuffle(boolean drawn) {
    shuffle = drawn;
    return this;
  }

  public TrainingJob carrier(Carrier kind) {
    carrier = kind;
    return this;
  }

  /** Compresses what is sent between the tasks. */
  public TrainingJob compress(boolean compressed) {
    compress = compressed;
    return this;
  }

  /** A task prefers the port base + its number, and takes a free one when that is taken. */
  public TrainingJob basePort(int port) {
    basePort = port;
    return this;
  }

  /**
   * A file in a folder that all executors share; every {@code steps} steps all parts save their state
   * there, so that a lost executor costs no more than that.
   */
  public TrainingJob checkpoint(String file, long steps) {
    checkpoint = file;
    checkpointEvery = steps;
    return this;
  }

  Map<String, String> sources() {
    return sources;
  }

  Map<String, Object> settings() {
    return settings;
  }

  int parts() {
    return parts;
  }

  int replicas() {
    return replicas;
  }

  long epochs() {
    return epochs;
  }

  long batchSize() {
    return batchSize;
  }

  boolean shuffle() {
    return shuffle;
  }

  Carrier carrier() {
    return carrier;
  }

  boolean compress() {
    return compress;
  }

  int basePort() {
    return basePort;
  }

  String checkpoint() {
    return checkpoint;
  }

  long checkpointEvery() {
    return checkpointEvery;
  }
}
