package io.harmonics.spark;

import io.harmonics.BatchProducer;
import io.harmonics.HarmonicGraph;
import io.harmonics.Producer;
import io.harmonics.ShuffleProducer;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.deploy.SparkHadoopUtil;

/** Opens a job's data inside a task. Files of a Hadoop file system are fetched first. */
final class TaskData implements AutoCloseable {
  private static final Pattern REMOTE = Pattern.compile("(\\w+:)([a-z0-9]+://[^?]+)(\\?.*)?");

  private final TrainingJob job;
  private final Map<String, Path> fetched = new LinkedHashMap<>();

  TaskData(TrainingJob job) {
    this.job = job;
  }

  /** One producer's samples in batches, as the job says; null when the job binds nothing to it. */
  Producer batches(String name) throws IOException {
    Producer source = samples(name);
    if (source == null) {
      return null;
    }
    Producer ordered = job.shuffle() ? new ShuffleProducer(source) : source;
    return new BatchProducer(ordered, job.batchSize());
  }

  /** The samples one by one, in the order of the file. */
  Producer samples(String name) throws IOException {
    String source = job.sources().get(name);
    return source == null ? null : Producer.open(local(source), Path.of("."));
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

  private String local(String source) throws IOException {
    Matcher remote = REMOTE.matcher(source);
    if (!remote.matches()) {
      return source;
    }
    String settings = remote.group(3) == null ? "" : remote.group(3);
    return remote.group(1) + fetch(remote.group(2)) + settings;
  }

  private Path fetch(String uri) throws IOException {
    Path known = fetched.get(uri);
    if (known != null) {
      return known;
    }
    Configuration conf = SparkHadoopUtil.get().conf();
    Path file = Files.createTempFile("harmonics", ".data");
    try (FileSystem system = FileSystem.newInstance(URI.create(uri), conf);
        InputStream in = system.open(new org.apache.hadoop.fs.Path(uri))) {
      Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
    }
    fetched.put(uri, file);
    return file;
  }

  @Override
  public void close() throws IOException {
    for (Path file : fetched.values()) {
      Files.deleteIfExists(file);
    }
  }
}
