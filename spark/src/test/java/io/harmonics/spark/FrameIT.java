package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.HarmonicGraph;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.evaluation.MulticlassClassificationEvaluator;
import org.apache.spark.ml.feature.SQLTransformer;
import org.apache.spark.ml.functions;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Data frames as data, and graphs as stages of a Spark ML pipeline. */
class FrameIT {
  private static SparkSession session;
  private static Dataset<Row> digits;

  @BeforeAll
  static void start() throws Exception {
    session = LocalCluster.start(LocalCluster.TWO_EXECUTORS);
    List<Row> rows = new ArrayList<>();
    for (String line : Files.readAllLines(Digits.FILE)) {
      if (!Character.isDigit(line.charAt(0))) {
        continue; // the header
      }
      double[] values = Arrays.stream(line.split(",")).mapToDouble(Double::parseDouble).toArray();
      Double[] pixels = new Double[64];
      Arrays.setAll(pixels, i -> values[i] * 0.0625);
      rows.add(RowFactory.create(pixels, (int) values[64]));
    }
    StructType schema =
        new StructType()
            .add("features", DataTypes.createArrayType(DataTypes.DoubleType, false), false)
            .add("label", DataTypes.IntegerType, false);
    digits =
        session.createDataFrame(
            JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(rows, 3), schema);
  }

  @Test
  void aFrameTrainsToTheWeightsOfTheFile() throws Exception {
    LocalCluster.whole();
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingJob job = new TrainingJob().epochs(2).rows(digits);
      job.columns("image", "features").columns("label", "label");
      Digits.SETTINGS.forEach(job::set);
      TrainingResult layers = new HarmonicsSpark(session).layerParallel(graph, job);
      assertEquals(Digits.nativeDigest(2), layers.weightsDigest());
      assertEquals(2, layers.processes().size());
      job.set("micro_batches", 1).replicas(4);
      TrainingResult copies = new HarmonicsSpark(session).dataParallel(graph, job);
      assertEquals(NativeReplicas.digest(1, 4), copies.weightsDigest());
    }
  }

  @Test
  void anRddOfRowsTrainsToTheSameWeights() throws Exception {
    LocalCluster.whole();
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingJob job = new TrainingJob().epochs(2).rows(digits.javaRDD());
      job.columns("image", "features").columns("label", "label");
      Digits.SETTINGS.forEach(job::set);
      HarmonicsSpark spark = new HarmonicsSpark(session);
      assertEquals(Digits.nativeDigest(2), spark.layerParallel(graph, job).weightsDigest());
      // Rows without a schema, and their columns by place.
      job.rows(digits.javaRDD().map(row -> RowFactory.create(row.get(1), row.get(0))));
      String told =
          assertThrows(IllegalArgumentException.class, () -> spark.layerParallel(graph, job))
              .getMessage();
      assertTrue(told.contains("no column 'features'; there are _1, _2"), told);
      job.columns("image", "_2").columns("label", "_1");
      assertEquals(Digits.nativeDigest(2), spark.layerParallel(graph, job).weightsDigest());
    }
  }

  @Test
  void anEstimatorIsAStageOfAPipeline() throws Exception {
    Dataset<Row> vectors =
        digits.select(
            functions.array_to_vector(digits.col("features")).as("features"),
            digits.col("label"),
            digits.col("label").as("id"));
    try (HarmonicGraph graph = Digits.graph()) {
      HarmonicsEstimator learner =
          new HarmonicsEstimator(graph, new TrainingJob().epochs(8).set("lr", 0.005))
              .setFeaturesCol("pixels");
      SQLTransformer renamed =
          new SQLTransformer().setStatement("SELECT features AS pixels, label, id FROM __THIS__");
      PipelineModel model =
          new Pipeline().setStages(new PipelineStage[] {renamed, learner}).fit(vectors);
      Dataset<Row> scored = model.transform(vectors);
      double accuracy =
          new MulticlassClassificationEvaluator()
              .setMetricName("accuracy")
              .evaluate(scored.withColumn("label", scored.col("label").cast("double")));
      assertTrue(accuracy > 0.95, "accuracy " + accuracy);
      List<Row> before = vectors.select("id").collectAsList();
      List<Row> after = scored.select("id", "output", "prediction").collectAsList();
      assertEquals(before.size(), after.size());
      for (int row = 0; row < before.size(); row++) {
        assertEquals(before.get(row).getInt(0), after.get(row).getInt(0));
        Vector output = after.get(row).getAs("output");
        assertEquals(output.argmax(), (int) after.get(row).getDouble(2));
      }
      HarmonicsModel trained = (HarmonicsModel) model.stages()[1];
      List<Row> cut =
          trained
              .setParts(2)
              .transform(renamed.transform(vectors))
              .select("id", "output", "prediction")
              .collectAsList();
      assertEquals(after.size(), cut.size());
      for (int row = 0; row < cut.size(); row++) {
        assertEquals(after.get(row).getInt(0), cut.get(row).getInt(0));
        Vector output = cut.get(row).getAs("output");
        Vector whole = after.get(row).getAs("output");
        assertArrayEquals(whole.toArray(), output.toArray(), 1e-4, "row " + row);
      }
      assertEquals(learner.uid(), trained.uid());
      assertArrayEquals(
          new String[] {"featuresCol", "outputCol", "parts", "predictionCol"},
          Arrays.stream(trained.params()).map(param -> param.name()).toArray());
    }
  }

  @Test
  void pipelinesAreSavedAndLoaded(@TempDir Path folder) throws Exception {
    String fitted = folder.resolve("fitted").toUri().toString();
    String plain = folder.resolve("plain").toUri().toString();
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingJob job = new TrainingJob().epochs(1).batchSize(64).carrier(Carrier.TCP);
      job.deploy(new Deployment().backend("cpu").part(0, "cpu")).parts(1);
      Digits.SETTINGS.forEach(job::set);
      HarmonicsEstimator learner = new HarmonicsEstimator(graph, job).setOutputCol("scores");
      Pipeline pipeline = new Pipeline().setStages(new PipelineStage[] {learner});
      pipeline.save(plain);
      PipelineModel model = pipeline.fit(digits);
      HarmonicsModel trained = (HarmonicsModel) model.stages()[0];
      trained.setParts(2);
      model.save(fitted);

      // What others trained comes with a graph and a file of weights.
      Path weights = folder.resolve("weights.safetensors");
      trained.saveWeights(weights);
      HarmonicsModel brought = HarmonicsModel.of(graph, weights).setOutputCol("scores");
      assertEquals(trained.result().weightsDigest(), brought.result().weightsDigest());
      assertEquals(
          trained.setParts(1).transform(digits).select("scores").collectAsList(),
          brought.transform(digits).select("scores").collectAsList());
      trained.setParts(2);

      HarmonicsModel loaded = (HarmonicsModel) PipelineModel.load(fitted).stages()[0];
      assertEquals(trained.uid(), loaded.uid());
      assertEquals(trained.extractParamMap().toString(), loaded.extractParamMap().toString());
      assertEquals(trained.result().weightsDigest(), loaded.result().weightsDigest());
      assertEquals(trained.result().report().json(), loaded.result().report().json());
      List<Row> expected = trained.setParts(1).transform(digits).select("scores").collectAsList();
      assertEquals(
          expected, loaded.setParts(1).transform(digits).select("scores").collectAsList());

      PipelineModel again = Pipeline.load(plain).fit(digits);
      HarmonicsModel same = (HarmonicsModel) again.stages()[0];
      assertEquals(trained.result().weightsDigest(), same.result().weightsDigest());
      assertEquals("scores", same.get(same.outputCol()).get());
    }
  }

  @Test
  void whatIsNoSavedModelIsAnError(@TempDir Path folder) throws Exception {
    String saved = folder.resolve("model").toString();
    try (HarmonicGraph graph = Digits.graph()) {
      new HarmonicsEstimator(graph, new TrainingJob()).save(saved);
    }
    assertThrows(IllegalArgumentException.class, () -> HarmonicsModel.load(saved));
    Files.delete(folder.resolve("model/job.json"));
    assertThrows(UncheckedIOException.class, () -> HarmonicsEstimator.load(saved));
  }

  @Test
  void columnsThatDoNotFitAreNamed() {
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingJob job = new TrainingJob().rows(digits).columns("image", "pixels");
      IllegalArgumentException missing =
          assertThrows(
              IllegalArgumentException.class,
              () -> new HarmonicsSpark(session).layerParallel(graph, job));
      assertTrue(missing.getMessage().contains("'pixels'"), missing.getMessage());
      assertTrue(missing.getMessage().contains("features, label"), missing.getMessage());
      job.columns("image", "label").columns("label", "label");
      Exception narrow =
          assertThrows(
              Exception.class, () -> new HarmonicsSpark(session).layerParallel(graph, job));
      assertTrue(
          narrow.getMessage().contains("'image' takes 64 numbers, a row holds 1"),
          narrow.getMessage());
    }
  }
}
