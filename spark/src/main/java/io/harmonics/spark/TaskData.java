package io.harmonics.spark;

import io.harmonics.AugmentProducer;
import io.harmonics.BatchProducer;
import io.harmonics.CacheProducer;
import io.harmonics.HarmonicGraph;
import io.harmonics.Producer;
import io.harmonics.ShuffleProducer;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.deploy.SparkHadoopUtil;

/** Opens a job's data inside a task. Files of a Hadoop file system are read where they are. */
final class TaskData implements AutoCloseable {
  private static final Pattern REMOTE = Pattern.compile("\\w+:([a-z0-9]+:/[^?]*)(\\?.*)?");

  private final TrainingJob job;
  private final RowFile rows;
  private final List<HadoopFile> files = new ArrayList<>();

  /** {@code rows} are those that came to this task; null when the job has none. */
  TaskData(TrainingJob job, RowFile rows) {
    this.job = job;
    this.rows = rows;
  }

  /** One producer's samples in batches, as the job says; null when the job binds nothing to it. */
  Producer batches(String name) throws IOException {
    Producer source = samples(name);
    if (source == null) {
      return null;
    }
    Producer kept = job.cacheBytes > 0 ? new CacheProducer(source, job.cacheBytes) : source;
    Producer ordered = job.shuffle ? new ShuffleProducer(kept) : kept;
    Map<String, Object> changes = job.changes.get(name);
    Producer changed = changes == null ? ordered : new AugmentProducer(ordered, changes);
    return new BatchProducer(changed, job.batchSize);
  }

  /** The samples one by one, in the order of the file. */
  Producer samples(String name) throws IOException {
    String source = job.sources.get(name);
    if (source != null) {
      return open(source);
    }
    return rows == null ? null : rows.samples(name);
  }

  /** A source of the native library, whose path may be the URI of a Hadoop file system. */
  Producer open(String source) throws IOException {
    Matcher remote = REMOTE.matcher(source);
    if (!remote.matches()) {
      return Producer.open(source, Path.of("."));
    }
    HadoopFile file = new HadoopFile(remote.group(1), SparkHadoopUtil.get().conf());
    files.add(file);
    return Producer.open(source, file.size(), file);
  }

  /** The graph, as a new one, with open shapes filled in from the data. */
  HarmonicGraph resolve(HarmonicGraph graph) throws IOException {
    Map<String, Producer> producers = new LinkedHashMap<>();
    for (String name : graph.producers()) {
      Producer source = samples(name);
      if (source != null) {
        producers.put(name, source);
      }
    }
    return graph.resolvedWith(producers);
  }

  @Override
  public void close() throws IOException {
    for (HadoopFile file : files) {
      file.close();
    }
    if (rows != null) {
      rows.close();
    }
  }
}
