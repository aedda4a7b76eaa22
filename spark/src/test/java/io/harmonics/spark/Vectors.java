package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;

/** Vectors to be added up, whose sum depends on the order in which it is made. */
final class Vectors {
  private static final int LENGTH = 1000;

  private Vectors() {}

  static List<float[]> drawn(int count) {
    Random random = new Random(7);
    List<float[]> vectors = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      float[] vector = new float[LENGTH];
      for (int k = 0; k < LENGTH; k++) {
        vector[k] = (float) (random.nextGaussian() * Math.pow(10, random.nextInt(5)));
      }
      vectors.add(vector);
    }
    return vectors;
  }

  static JavaRDD<float[]> spread(SparkSession session, List<float[]> vectors, int tasks) {
    return JavaSparkContext.fromSparkContext(session.sparkContext()).parallelize(vectors, tasks);
  }

  /** That a sum is within what float32 additions in any order may be off: (n - 1) 2^-24 sum |x|. */
  static void checkSum(List<float[]> vectors, float[] sum) {
    assertEquals(LENGTH, sum.length);
    for (int k = 0; k < LENGTH; k++) {
      double exact = 0;
      double size = 0;
      for (float[] vector : vectors) {
        exact += vector[k];
        size += Math.abs(vector[k]);
      }
      double bound = (vectors.size() - 1) * size / (1 << 24) * (1 + 1e-5);
      assertTrue(Math.abs(sum[k] - exact) <= bound, sum[k] + " instead of " + exact + " at " + k);
    }
  }
}
