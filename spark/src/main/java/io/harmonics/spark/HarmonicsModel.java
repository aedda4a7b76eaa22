package io.harmonics.spark;

import io.harmonics.HarmonicGraph;
import io.harmonics.Report;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.ml.param.IntParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.util.Identifiable$;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/**
 * A trained graph as a stage of a Spark ML pipeline: adds the graph's output to every row, and the
 * place of its largest element (the output itself, where it is a single number). Rows stay where
 * they are and in their order.
 */
public final class HarmonicsModel extends Model<HarmonicsModel> implements MLWritable {
  private static final long serialVersionUID = 1L;

  private final String uid;
  private final transient TrainingResult trained;
  private final Param<String> featuresCol;
  private final Param<String> outputCol;
  private final Param<String> predictionCol;
  private final IntParam parts;

  HarmonicsModel(String uid, TrainingResult trained) {
    this.uid = uid;
    this.trained = trained;
    featuresCol = param("featuresCol", "column with the features: numbers, an array or a vector");
    outputCol = param("outputCol", "new column with the graph's output, a vector");
    predictionCol =
        param("predictionCol", "new column with the place of the output's largest element");
    parts = new IntParam(this, "parts", "over how many tasks the layers go; 1: no cut");
    setDefault(parts, 1);
    setDefault(featuresCol, "features");
    setDefault(outputCol, "output");
    setDefault(predictionCol, "prediction");
  }

  /** Only once the uid is known, which becomes part of it. */
  private Param<String> param(String name, String text) {
    return new Param<>(this, name, text);
  }

  @Override
  public String uid() {
    return uid;
  }

  /** What the training came to. */
  public TrainingResult result() {
    return trained;
  }

  /** Writes the weights as a safetensors file, which {@code harmonics run --weights} reads. */
  public void saveWeights(Path file) {
    trained.save(file);
  }

  public Param<String> featuresCol() {
    return featuresCol;
  }

  public Param<String> outputCol() {
    return outputCol;
  }

  public Param<String> predictionCol() {
    return predictionCol;
  }

  public IntParam parts() {
    return parts;
  }

  /**
   * Computes with the layers over so many tasks, which run at the same time: for a graph that is
   * too large for one executor.
   */
  public HarmonicsModel setParts(int count) {
    set(parts, count);
    return this;
  }

  public HarmonicsModel setFeaturesCol(String name) {
    set(featuresCol, name);
    return this;
  }

  public HarmonicsModel setOutputCol(String name) {
    set(outputCol, name);
    return this;
  }

  public HarmonicsModel setPredictionCol(String name) {
    set(predictionCol, name);
    return this;
  }

  @Override
  public Dataset<Row> transform(Dataset<?> frame) {
    StructType made = transformSchema(frame.schema());
    Inference inference;
    try (HarmonicGraph whole = HarmonicGraph.decode(trained.graph())) {
      inference = HarmonicsSpark.inference(whole, trained.arrays());
    }
    int column = frame.schema().fieldIndex($(featuresCol));
    Inference reading = inference.reading(new ArrayList<>(List.of(column)));
    if ((int) $(parts) > 1) {
      return layerParallel(frame, made, reading.input());
    }
    Broadcast<Inference> shared =
        JavaSparkContext.fromSparkContext(frame.sparkSession().sparkContext()).broadcast(reading);
    MapPartitionsFunction<Row, Row> compute =
        rows -> shared.value().over(rows, Samples::put, HarmonicsModel::joined);
    return frame.toDF().mapPartitions(compute, Encoders.row(made));
  }

  /** Rows and their outputs find each other by their number. */
  private Dataset<Row> layerParallel(Dataset<?> frame, StructType made, Samples input) {
    JavaRDD<Row> rows = frame.toDF().javaRDD();
    JavaRDD<float[]> features =
        rows.map(
            row -> {
              List<Number> numbers = Samples.numbers(row, input.columns());
              float[] values = new float[numbers.size()];
              for (int i = 0; i < values.length; i++) {
                values[i] = numbers.get(i).floatValue();
              }
              return values;
            });
    JavaRDD<float[]> outputs;
    try (HarmonicGraph whole = HarmonicGraph.decode(trained.graph())) {
      outputs =
          new HarmonicsSpark(frame.sparkSession())
              .inferLayerParallel(whole, trained, features, (int) $(parts), 1);
    }
    JavaRDD<Row> joined =
        rows.zipWithIndex()
            .mapToPair(Tuple2::swap)
            .join(outputs.zipWithIndex().mapToPair(Tuple2::swap))
            .sortByKey()
            .map(each -> joined(each._2()._1(), each._2()._2()));
    return frame.sparkSession().createDataFrame(joined, made);
  }

  @Override
  public StructType transformSchema(StructType schema) {
    return schemaWith(schema, $(featuresCol), $(outputCol), $(predictionCol));
  }

  @Override
  public HarmonicsModel copy(ParamMap extra) {
    return copyValues(new HarmonicsModel(uid, trained), extra).setParent(parent());
  }

  /** Saves the graph, the weights and the training's report. */
  @Override
  public MLWriter write() {
    return SavedStage.writer(this, trained::save);
  }

  /** What a saved pipeline reads its stages with. */
  public static MLReader<HarmonicsModel> read() {
    return SavedStage.reader(
        HarmonicsModel.class,
        (uid, saved) -> new HarmonicsModel(uid, TrainingResult.load(saved)));
  }

  public static HarmonicsModel load(String path) {
    return read().load(path);
  }

  /**
   * A graph that others have trained, such as one that {@code harmonics import} wrote: its layers
   * and the weights of a safetensors file. Its report is empty.
   */
  public static HarmonicsModel of(HarmonicGraph graph, Path weights) {
    return new HarmonicsModel(
        Identifiable$.MODULE$.randomUID("harmonics"),
        TrainingResult.of(graph.encode(), new Report("{}"), weights));
  }

  static StructType schemaWith(
      StructType schema, String features, String output, String prediction) {
    List<String> names = Arrays.asList(schema.fieldNames());
    if (!names.contains(features)) {
      throw new IllegalArgumentException(
          "there is no column '" + features + "'; there are " + String.join(", ", names));
    }
    for (String added : List.of(output, prediction)) {
      if (names.contains(added)) {
        throw new IllegalArgumentException("there is a column '" + added + "' already");
      }
    }
    return schema
        .add(output, SQLDataTypes.VectorType())
        .add(prediction, DataTypes.DoubleType);
  }

  private static Row joined(Row row, float[] output) {
    Object[] all = new Object[row.size() + 2];
    for (int i = 0; i < row.size(); i++) {
      all[i] = row.get(i);
    }
    double[] wide = new double[output.length];
    int largest = 0;
    for (int i = 0; i < output.length; i++) {
      wide[i] = output[i];
      largest = output[i] > output[largest] ? i : largest;
    }
    all[row.size()] = Vectors.dense(wide);
    all[row.size() + 1] = output.length == 1 ? wide[0] : (double) largest;
    return RowFactory.create(all);
  }
}
