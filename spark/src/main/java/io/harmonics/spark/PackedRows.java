package io.harmonics.spark;

import io.harmonics.HarmonicGraph;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.api.java.JavaRDD;

/**
 * What {@link HarmonicsSpark} does with rows of floats, for the Python front, whose rows are bytes:
 * the floats one after another in the order of this machine.
 */
public final class PackedRows {
  private final HarmonicsSpark spark;

  public PackedRows(HarmonicsSpark spark) {
    this.spark = spark;
  }

  public JavaRDD<byte[]> infer(
      HarmonicGraph graph, TrainingResult trained, JavaRDD<byte[]> rows) {
    return spark.infer(graph, trained, rows.map(PackedRows::floats)).map(PackedRows::bytes);
  }

  public JavaRDD<byte[]> inferLayerParallel(
      HarmonicGraph graph, TrainingResult trained, JavaRDD<byte[]> rows, int parts, int copies) {
    return spark
        .inferLayerParallel(graph, trained, rows.map(PackedRows::floats), parts, copies)
        .map(PackedRows::bytes);
  }

  public byte[] sum(JavaRDD<byte[]> vectors) {
    return bytes(spark.sum(vectors.map(PackedRows::floats)));
  }

  private static float[] floats(byte[] bytes) {
    float[] row = new float[bytes.length / 4];
    ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()).asFloatBuffer().get(row);
    return row;
  }

  private static byte[] bytes(float[] row) {
    ByteBuffer packed = ByteBuffer.allocate(Math.multiplyExact(4, row.length));
    packed.order(ByteOrder.nativeOrder()).asFloatBuffer().put(row);
    return packed.array();
  }
}
