package io.harmonics.spark;

import io.harmonics.AugmentProducer;
import io.harmonics.BatchProducer;
import io.harmonics.CycleRuntime;
import io.harmonics.HarmonicGraph;
import io.harmonics.Producer;
import io.harmonics.ShuffleProducer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** The shipped digits, and what one runtime of the native library learns from them. */
final class Digits {
  static final Path FILE =
      Path.of(System.getProperty("harmonics.source"), "examples/data/digits.csv");
  static final Map<String, Object> SETTINGS =
      Map.of("lr", 0.005, "seed", 3, "threads", 1, "micro_batches", 2);

  private Digits() {}

  static String images(Object file) {
    return "csv:" + file + "?columns=0-63&scale=0.0625";
  }

  static String labels(Object file) {
    return "csv:" + file + "?columns=64&dtype=int64";
  }

  static HarmonicGraph graph() {
    return HarmonicGraph.zoo("digits-mlp");
  }

  /** Trains on the file, wherever it lies. */
  static TrainingJob job(Object file) {
    TrainingJob job =
        new TrainingJob().bind("image", images(file)).bind("label", labels(file)).epochs(2);
    SETTINGS.forEach(job::set);
    return job;
  }

  static TrainingJob job() {
    return job(FILE);
  }

  /** The digest of the weights that a native run of so many micro-batches per batch gives. */
  static String nativeDigest(long epochs, int microBatches) {
    Map<String, Object> settings = new HashMap<>(SETTINGS);
    settings.put("micro_batches", microBatches);
    return nativeDigest(epochs, settings, ordered(images(FILE)));
  }

  static String nativeDigest(long epochs) {
    return nativeDigest(epochs, SETTINGS, ordered(images(FILE)));
  }

  /** The same with images that are changed at random. */
  static String nativeDigest(long epochs, Map<String, Object> changes) {
    return nativeDigest(epochs, SETTINGS, new AugmentProducer(ordered(images(FILE)), changes));
  }

  private static String nativeDigest(long epochs, Map<String, Object> settings, Producer images) {
    try (HarmonicGraph graph = graph();
        CycleRuntime runtime = new CycleRuntime(graph, settings)) {
      runtime.bindProducer("image", new BatchProducer(images, 32));
      runtime.bindProducer("label", new BatchProducer(ordered(labels(FILE)), 32));
      runtime.fit(epochs);
      return runtime.weightsDigest();
    }
  }

  private static Producer ordered(String source) {
    return new ShuffleProducer(Producer.open(source, Path.of(".")));
  }
}
