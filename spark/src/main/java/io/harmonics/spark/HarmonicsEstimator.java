package io.harmonics.spark;

import com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.harmonics.HarmonicGraph;
import java.util.List;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.util.Identifiable$;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.ml.util.MLWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;

/**
 * Trains a graph on a data frame, as a stage of a Spark ML pipeline.
 *
 * <pre>{@code
 * HarmonicsModel model =
 *     new HarmonicsEstimator(graph, new TrainingJob().epochs(30).parts(2))
 *         .setFeaturesCol("features")
 *         .fit(frame);
 * Dataset<Row> scored = model.transform(frame); // output, prediction
 * }</pre>
 *
 * <p>The graph's first producer takes the features; its second, where it has one, the labels.
 */
public final class HarmonicsEstimator extends Estimator<HarmonicsModel> implements MLWritable {
  private static final long serialVersionUID = 1L;

  /** Objects are their fields. */
  private static final ObjectMapper JSON =
      new ObjectMapper()
          .setVisibility(PropertyAccessor.ALL, Visibility.NONE)
          .setVisibility(PropertyAccessor.FIELD, Visibility.ANY);

  private final String uid;
  private final byte[] graph;
  private final TrainingJob job;
  private final Param<String> featuresCol;
  private final Param<String> labelCol;
  private final Param<String> outputCol;
  private final Param<String> predictionCol;
  private final Param<String> mode;

  public HarmonicsEstimator(HarmonicGraph graph, TrainingJob job) {
    this(Identifiable$.MODULE$.randomUID("harmonics"), graph.encode(), job);
  }

  private HarmonicsEstimator(String uid, byte[] graph, TrainingJob job) {
    this.uid = uid;
    this.graph = graph;
    this.job = job;
    featuresCol = param("featuresCol", "column with the features: numbers, an array or a vector");
    labelCol = param("labelCol", "column with the label");
    outputCol = param("outputCol", "new column with the graph's output, a vector");
    predictionCol =
        param("predictionCol", "new column with the place of the output's largest element");
    mode = param("mode", "how the tasks share the work: layer, data or hybrid");
    setDefault(featuresCol, "features");
    setDefault(labelCol, "label");
    setDefault(outputCol, "output");
    setDefault(predictionCol, "prediction");
    setDefault(mode, "layer");
  }

  /** Only once the uid is known, which becomes part of it. */
  private Param<String> param(String name, String text) {
    return new Param<>(this, name, text);
  }

  @Override
  public String uid() {
    return uid;
  }

  public Param<String> featuresCol() {
    return featuresCol;
  }

  public Param<String> labelCol() {
    return labelCol;
  }

  public Param<String> outputCol() {
    return outputCol;
  }

  public Param<String> predictionCol() {
    return predictionCol;
  }

  public Param<String> mode() {
    return mode;
  }

  public HarmonicsEstimator setFeaturesCol(String name) {
    set(featuresCol, name);
    return this;
  }

  public HarmonicsEstimator setLabelCol(String name) {
    set(labelCol, name);
    return this;
  }

  public HarmonicsEstimator setOutputCol(String name) {
    set(outputCol, name);
    return this;
  }

  public HarmonicsEstimator setPredictionCol(String name) {
    set(predictionCol, name);
    return this;
  }

  /** {@code layer}, {@code data} or {@code hybrid}. */
  public HarmonicsEstimator setMode(String name) {
    set(mode, name);
    return this;
  }

  @Override
  public HarmonicsModel fit(Dataset<?> frame) {
    try (HarmonicGraph whole = HarmonicGraph.decode(graph)) {
      TrainingJob own = job.copy().rows(frame.toDF());
      List<String> producers = whole.producers();
      own.columns(producers.get(0), $(featuresCol));
      if (producers.size() > 1) {
        own.columns(producers.get(1), $(labelCol));
      }
      TrainingResult trained = train(new HarmonicsSpark(frame.sparkSession()), whole, own);
      HarmonicsModel model = new HarmonicsModel(uid, trained);
      model.setFeaturesCol($(featuresCol)).setOutputCol($(outputCol));
      return model.setPredictionCol($(predictionCol)).setParent(this);
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException(error.getMessage(), error);
    }
  }

  private TrainingResult train(HarmonicsSpark spark, HarmonicGraph whole, TrainingJob own)
      throws Exception {
    return switch ($(mode)) {
      case "layer" -> spark.layerParallel(whole, own);
      case "data" -> spark.dataParallel(whole, own);
      case "hybrid" -> spark.hybrid(whole, own);
      default ->
          throw new IllegalArgumentException(
              "there is no mode '" + $(mode) + "'; there are layer, data and hybrid");
    };
  }

  /** Saves the graph and the job, without a data frame of its own. */
  @Override
  public MLWriter write() {
    return SavedStage.writer(
        this,
        to -> {
          to.write("graph.blob", graph);
          to.write("job.json", JSON.writeValueAsBytes(job));
        });
  }

  /** What a saved pipeline reads its stages with. */
  public static MLReader<HarmonicsEstimator> read() {
    return SavedStage.reader(
        HarmonicsEstimator.class,
        (uid, saved) ->
            new HarmonicsEstimator(
                uid,
                saved.read("graph.blob"),
                JSON.readValue(saved.read("job.json"), TrainingJob.class)));
  }

  public static HarmonicsEstimator load(String path) {
    return read().load(path);
  }

  @Override
  public StructType transformSchema(StructType schema) {
    return HarmonicsModel.schemaWith(schema, $(featuresCol), $(outputCol), $(predictionCol));
  }

  @Override
  public HarmonicsEstimator copy(ParamMap extra) {
    return copyValues(new HarmonicsEstimator(uid, graph, job), extra);
  }
}
