package io.harmonics.spark;

import java.io.Serializable;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/**
 * What a training job is told beside its graph. Every setting has a default, except the data. A
 * number that makes no sense is an {@link IllegalArgumentException} at once.
 *
 * <pre>{@code
 * TrainingJob job = new TrainingJob()
 *     .bind("image", "csv:/data/digits.csv?columns=0-63&scale=0.0625")
 *     .bind("label", "csv:/data/digits.csv?columns=64&dtype=int64")
 *     .epochs(30)
 *     .set("lr", 0.005);
 * }</pre>
 */
public final class TrainingJob implements Cloneable, Serializable {
  private static final long serialVersionUID = 1L;
  private static final int LAST_PORT = 65535;

  Map<String, String> sources = new LinkedHashMap<>();
  Map<String, List<String>> columns = new LinkedHashMap<>();
  Map<String, Object> settings = new LinkedHashMap<>();
  Map<String, HashMap<String, Object>> changes = new LinkedHashMap<>();
  long cacheBytes;
  /** Null: there is none. */
  transient Dataset<Row> frame;
  /** Null: there is none. */
  transient JavaRDD<Row> rdd;
  int parts = 2;
  int replicas = 2;
  long epochs = 10;
  long batchSize = 32;
  boolean shuffle = true;
  Carrier carrier = Carrier.AUTO;
  boolean compress;
  int basePort = 40400;
  /** Null: none was given. */
  Deployment deployment;
  /** Null: the job is not secure. */
  String secureKeys;
  String checkpoint = "";
  long checkpointEvery = 100;

  /**
   * Where a producer's samples come from: a source of the native library whose path every executor
   * can read, or one with the URI of a Hadoop file system, {@code csv:hdfs://host/digits.csv}.
   */
  public TrainingJob bind(String producer, String source) {
    sources.put(producer, source);
    return this;
  }

  /**
   * A data frame whose rows are samples; {@link #columns} says which columns go where. Its rows
   * travel from executor to executor, each part to the tasks that read it.
   */
  public TrainingJob rows(Dataset<Row> samples) {
    frame = samples;
    rdd = null;
    return this;
  }

  /**
   * The same with an RDD of rows. Their columns have the names of the first row's schema; rows
   * without one have {@code _1}, {@code _2} …
   */
  public TrainingJob rows(JavaRDD<Row> samples) {
    rdd = samples;
    frame = null;
    return this;
  }

  /** Columns of the rows, which hold numbers, arrays or vectors, for a producer. */
  public TrainingJob columns(String producer, String... names) {
    columns.put(producer, List.of(names));
    return this;
  }

  /**
   * Keeps the samples of each source in the memory of the task that reads it, so that a file is
   * read once and not in every epoch; sources that take more than {@code bytes} are read as before.
   */
  public TrainingJob cache(long bytes) {
    cacheBytes = atLeast(0, bytes, "bytes of the cache");
    return this;
  }

  /**
   * Changes a producer's samples at random, other ones in every epoch and the same in all tasks and
   * runs. The options are those of {@link io.harmonics.AugmentProducer}.
   */
  public TrainingJob augment(String producer, Map<String, ?> options) {
    changes.put(producer, new HashMap<>(options));
    return this;
  }

  /** What computes the parts; the best that each executor has unless said. */
  public TrainingJob deploy(Deployment descriptor) {
    deployment = descriptor;
    return this;
  }

  /**
   * Signs and checks every tensor between the tasks. {@code keys} is a folder of keys that every
   * executor can read; empty text means that of the user that it runs as. Not with replicas. With a
   * checkpoint the chains lie beside it and go on when an executor is lost.
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
    parts = (int) atLeast(1, count, "parts");
    return this;
  }

  /** How many copies a data-parallel or hybrid job trains; 2 unless said. */
  public TrainingJob replicas(int count) {
    replicas = (int) atLeast(1, count, "replicas");
    return this;
  }

  public TrainingJob epochs(long count) {
    epochs = atLeast(1, count, "epochs");
    return this;
  }

  /** Samples per step, of all replicas together. */
  public TrainingJob batchSize(long samples) {
    batchSize = atLeast(1, samples, "samples in a batch");
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
    if (port < 1 || port > LAST_PORT) {
      throw new IllegalArgumentException(
          "base port " + port + ": ports are numbers from 1 to " + LAST_PORT);
    }
    basePort = port;
    return this;
  }

  /**
   * A file in a folder that all executors share; every {@code steps} steps all parts save their
   * state there, so that a lost executor costs no more than that.
   */
  public TrainingJob checkpoint(String file, long steps) {
    checkpoint = file;
    checkpointEvery = atLeast(1, steps, "steps between checkpoints");
    return this;
  }

  private static long atLeast(long least, long given, String what) {
    if (given < least) {
      throw new IllegalArgumentException(what + ": at least " + least + ", not " + given);
    }
    return given;
  }

  /** One that can be changed without changing this. */
  TrainingJob copy() {
    try {
      TrainingJob made = (TrainingJob) clone();
      made.sources = new LinkedHashMap<>(sources);
      made.columns = new LinkedHashMap<>(columns);
      made.settings = new LinkedHashMap<>(settings);
      made.changes = new LinkedHashMap<>(changes);
      return made;
    } catch (CloneNotSupportedException impossible) {
      throw new AssertionError(impossible);
    }
  }
}
