package io.harmonics.spark;

import io.harmonics.CycleRuntime;
import io.harmonics.HarmonicGraph;
import io.harmonics.NamedTensors;
import io.harmonics.Tensor;
import io.harmonics.Weights;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.function.Function;

/**
 * What a task needs to compute outputs: the graph, its weights, and between which nodes.
 *
 * @param batchSize rows that are computed at once
 */
record Inference(
    byte[] graph, ArrayList<NamedArray> weights, String input, String output, int batchSize)
    implements Serializable {

  /** The outputs of {@code rows} in their order; {@code features} gives a row's numbers. */
  <T, R> Iterator<R> over(Iterator<T> rows, Function<T, float[]> features, Joiner<T, R> join)
      throws IOException {
    return new Outputs<>(this, rows, features, join);
  }

  /** Puts a row and its output together. */
  @FunctionalInterface
  interface Joiner<T, R> extends Serializable {
    R join(T row, float[] output);
  }

  /** The runtime with these weights. */
  CycleRuntime runtime() throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    weights.forEach(array -> tensors.put(array.name(), array.tensor()));
    Path file = Files.createTempFile("harmonics", ".safetensors");
    try (HarmonicGraph decoded = HarmonicGraph.decode(graph)) {
      Weights.save(file, tensors);
      CycleRuntime runtime = new CycleRuntime(decoded);
      runtime.loadWeights(file);
      return runtime;
    } finally {
      Files.deleteIfExists(file);
    }
  }

  private static final class Outputs<T, R> implements Iterator<R> {
    private final Inference inference;
    private final CycleRuntime runtime;
    private final long[] shape;
    private final Iterator<T> rows;
    private final Function<T, float[]> features;
    private final Joiner<T, R> join;
    private Iterator<R> ready = List.<R>of().iterator();

    Outputs(Inference inference, Iterator<T> rows, Function<T, float[]> features, Joiner<T, R> join)
        throws IOException {
      this.inference = inference;
      this.runtime = inference.runtime();
      try (HarmonicGraph graph = HarmonicGraph.decode(inference.graph)) {
        this.shape = graph.shape(inference.input);
      }
      this.rows = rows;
      this.features = features;
      this.join = join;
    }

    @Override
    public boolean hasNext() {
      if (!ready.hasNext() && rows.hasNext()) {
        ready = compute(nextRows()).iterator();
      }
      if (!ready.hasNext()) {
        runtime.close();
      }
      return ready.hasNext();
    }

    @Override
    public R next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return ready.next();
    }

    private List<T> nextRows() {
      List<T> batch = new ArrayList<>();
      while (rows.hasNext() && batch.size() < inference.batchSize) {
        batch.add(rows.next());
      }
      return batch;
    }

    private List<R> compute(List<T> batch) {
      Tensor input = batchOf(batch.stream().map(features).toList(), shape);
      try (NamedTensors outputs = runtime.infer(Map.of(inference.input, input))) {
        float[] all = outputs.get(inference.output).floats();
        int width = all.length / batch.size();
        List<R> joined = new ArrayList<>();
        for (int row = 0; row < batch.size(); row++) {
          float[] output = new float[width];
          System.arraycopy(all, row * width, output, 0, width);
          joined.add(join.join(batch.get(row), output));
        }
        return joined;
      }
    }
  }

  /** Rows of equal length as one tensor with a leading batch axis. */
  static Tensor batchOf(List<float[]> rows, long[] shape) {
    int width = rows.get(0).length;
    ByteBuffer data =
        ByteBuffer.allocateDirect(4 * width * rows.size()).order(ByteOrder.nativeOrder());
    for (float[] row : rows) {
      if (row.length != width) {
        throw new IllegalArgumentException(
            "rows of " + width + " and of " + row.length + " numbers in one data set");
      }
      data.asFloatBuffer().put(row);
      data.position(data.position() + 4 * width);
    }
    data.flip();
    long[] whole = new long[shape.length + 1];
    whole[0] = rows.size();
    System.arraycopy(shape, 0, whole, 1, shape.length);
    return Tensor.of("float32", whole, data);
  }
}
