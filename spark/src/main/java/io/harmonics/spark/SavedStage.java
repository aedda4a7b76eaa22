package io.harmonics.spark;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.ml.param.Params;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.DefaultParamsReader$;
import org.apache.spark.ml.util.DefaultParamsWriter$;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.SparkSession;
import scala.Option;

/**
 * A stage of a pipeline in a folder of any Hadoop file system: Spark's own metadata, by which a
 * saved pipeline finds its stages, and files of the stage beside it. The metadata is written last:
 * a folder without it is no stage.
 */
final class SavedStage {
  /** Writes a stage's files. */
  @FunctionalInterface
  interface Content {
    void write(SavedStage to) throws IOException;
  }

  /** Makes a stage from its files; Spark sets its parameters afterwards. */
  @FunctionalInterface
  interface Maker<T> {
    T make(String uid, SavedStage saved) throws IOException;
  }

  private final FileSystem system;
  private final Path folder;

  private SavedStage(String folder, SparkSession session) throws IOException {
    this.folder = new Path(folder);
    this.system = this.folder.getFileSystem(session.sparkContext().hadoopConfiguration());
  }

  static MLWriter writer(Params stage, Content content) {
    return new MLWriter() {
      @Override
      public void saveImpl(String path) {
        try {
          content.write(new SavedStage(path, sparkSession()));
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
        DefaultParamsWriter$.MODULE$.saveMetadata(stage, path, sparkSession());
      }
    };
  }

  static <T extends Params> MLReader<T> reader(Class<T> type, Maker<T> maker) {
    return new MLReader<>() {
      @Override
      public T load(String path) {
        DefaultParamsReader.Metadata metadata =
            DefaultParamsReader$.MODULE$.loadMetadata(path, sparkSession(), type.getName());
        try {
          T stage = maker.make(metadata.uid(), new SavedStage(path, sparkSession()));
          metadata.getAndSetParams(stage, Option.empty());
          return stage;
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      }
    };
  }

  byte[] read(String name) throws IOException {
    try (FSDataInputStream in = system.open(new Path(folder, name))) {
      return in.readAllBytes();
    }
  }

  void write(String name, byte[] bytes) throws IOException {
    try (OutputStream out = system.create(new Path(folder, name), false)) {
      out.write(bytes);
    }
  }

  /** A file of any size, out of the folder. */
  void copyTo(java.nio.file.Path local, String name) throws IOException {
    try (FSDataInputStream in = system.open(new Path(folder, name))) {
      Files.copy(in, local, StandardCopyOption.REPLACE_EXISTING);
    }
  }

  /** A file of any size, into the folder. */
  void copyFrom(java.nio.file.Path local, String name) throws IOException {
    try (OutputStream out = system.create(new Path(folder, name), false)) {
      Files.copy(local, out);
    }
  }
}
