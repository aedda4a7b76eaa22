package io.harmonics.spark;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

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
  private Deployment deployment;
  private transient Dataset<Row> frame;
  private final Map<String, List<String>> columns = new LinkedHashMap<>();
  private String secureKeys;
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

  /**
   * A data frame whose rows are samples; {@link #columns} says which columns go where. Its rows travel
   * from executor to executor, each part to the tasks that read it.
   */
  public TrainingJob rows(Dataset<Row> samples) {
    frame = samples;
    return this;
  }

  /** Columns of the data frame, which hold numbers, arrays or vectors, for a producer. */
  public TrainingJob columns(String producer, String... names) {
    columns.put(producer, List.of(names));
    return this;
  }

  /** What computes the parts; the best that each executor has unless said. */
  public TrainingJob deploy(Deployment descriptor) {
    deployment = descriptor;
    return this;
  }

  /**
   * Signs and checks every tensor between the tasks. {@code keys} is a folder of keys that every
   * executor can read; empty text means that of the user that it runs as. Not with replicas, and not with a
   * checkpoint: a secure job that loses an executor begins again.
   */
  public TrainingJob secure(String keys) {
    secureKeys = keys;
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

  /** One that can be changed without changing this. */
  TrainingJob copy() {
    TrainingJob made = new TrainingJob();
    made.sources.putAll(sources);
    made.settings.putAll(settings);
    made.columns.putAll(columns);
    made.frame = frame;
    made.deployment = deployment;
    made.secureKeys = secureKeys;
    made.parts = parts;
    made.replicas = replicas;
    made.epochs = epochs;
    made.batchSize = batchSize;
    made.shuffle = shuffle;
    made.carrier = carrier;
    made.compress = compress;
    made.basePort = basePort;
    made.checkpoint = checkpoint;
    made.checkpointEvery = checkpointEvery;
    return made;
  }

  /** Null: there is none. */
  Dataset<Row> frame() {
    return frame;
  }

  Map<String, List<String>> columns() {
    return columns;
  }

  /** Null: the job is not secure. */
  String secureKeys() {
    return secureKeys;
  }

  /** Null: none was given. */
  Deployment deployment() {
    return deployment;
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
