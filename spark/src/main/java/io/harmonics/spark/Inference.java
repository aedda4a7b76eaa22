package io.harmonics.spark;

import io.harmonics.CycleRuntime;
import io.harmonics.Engine;
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
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * What a task needs to compute outputs: the graph, its weights, and between which nodes.
 *
 * @param input how a row becomes a sample of the producer that takes it
 * @param batchSize rows that are computed at once
 */
record Inference(
    byte[] graph, ArrayList<NamedArray> weights, Samples input, String output, int batchSize)
    implements Serializable {

  /** Writes a row's sample. */
  @FunctionalInterface
  interface Feeder<T> extends Serializable {
    void put(Samples input, T row, ByteBuffer out);
  }

  /** Puts a row and its output together. */
  @FunctionalInterface
  interface Joiner<T, R> extends Serializable {
    R join(T row, float[] output);
  }

  /** A feeder for rows that are numbers already. */
  static void putFloats(Samples input, float[] row, ByteBuffer out) {
    if (!input.dtype().equals("float32")) {
      throw new IllegalArgumentException(
          "producer '" + input.producer() + "' takes " + input.dtype()
              + ": rows of floats cannot feed it, a data frame can");
    }
    if (input.bytes() != 4 * row.length) {
      throw new IllegalArgumentException(
          "producer '" + input.producer() + "' takes " + input.bytes() / 4
              + " numbers, a row holds " + row.length);
    }
    out.asFloatBuffer().put(row);
    out.position(out.position() + 4 * row.length);
  }

  /** The outputs of {@code rows} in their order, from one runtime with the whole graph. */
  <T, R> Iterator<R> over(Iterator<T> rows, Feeder<T> feeder, Joiner<T, R> join)
      throws IOException {
    return new Outputs<>(this, rows, feeder, join);
  }

  /** The same with the input in these columns of a data frame. */
  Inference reading(ArrayList<Integer> columns) {
    Samples chosen = new Samples(input.producer(), columns, input.dtype(), input.shape());
    return new Inference(graph, weights, chosen, output, batchSize);
  }

  /** The same with so many rows computed at once. */
  Inference inBatchesOf(int rows) {
    return new Inference(graph, weights, input, output, rows);
  }

  /** Gives an engine these weights. */
  void load(Engine engine) throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    weights.forEach(array -> tensors.put(array.name(), array.tensor()));
    Path file = Files.createTempFile("harmonics", ".safetensors");
    try {
      Weights.save(file, tensors);
      engine.loadWeights(file);
    } finally {
      Files.deleteIfExists(file);
    }
  }

  /** The next rows as one tensor with a leading batch axis. */
  <T> Tensor batch(List<T> rows, Feeder<T> feeder) {
    ByteBuffer data =
        ByteBuffer.allocateDirect(Math.multiplyExact(input.bytes(), rows.size()))
            .order(ByteOrder.nativeOrder());
    rows.forEach(row -> feeder.put(input, row, data));
    data.flip();
    long[] whole = new long[input.shape().length + 1];
    whole[0] = rows.size();
    System.arraycopy(input.shape(), 0, whole, 1, input.shape().length);
    return Tensor.of(input.dtype(), whole, data);
  }

  <T> List<T> next(Iterator<T> rows) {
    List<T> batch = new ArrayList<>();
    while (batch.size() < batchSize && rows.hasNext()) {
      batch.add(rows.next());
    }
    return batch;
  }

  /** The output's rows one by one. */
  List<float[]> split(NamedTensors outputs, int rows) {
    float[] all = outputs.get(output).floats();
    int width = all.length / rows;
    List<float[]> each = new ArrayList<>();
    for (int row = 0; row < rows; row++) {
      float[] one = new float[width];
      System.arraycopy(all, row * width, one, 0, width);
      each.add(one);
    }
    return each;
  }

  private static final class Outputs<T, R> implements Iterator<R> {
    private final Inference inference;
    private final CycleRuntime runtime;
    private final Iterator<T> rows;
    private final Feeder<T> feeder;
    private final Joiner<T, R> join;
    private Iterator<R> ready = List.<R>of().iterator();

    Outputs(Inference inference, Iterator<T> rows, Feeder<T> feeder, Joiner<T, R> join)
        throws IOException {
      this.inference = inference;
      this.rows = rows;
      this.feeder = feeder;
      this.join = join;
      TaskContext task = TaskContext.get();
      int threads = task == null ? 1 : Math.max(1, task.cpus());
      try (HarmonicGraph graph = HarmonicGraph.decode(inference.graph)) {
        runtime = new CycleRuntime(graph, Map.of("threads", threads));
      }
      if (task != null) {
        TaskCompletionListener atEnd = ended -> runtime.close();
        task.addTaskCompletionListener(atEnd);
      }
      inference.load(runtime);
    }

    @Override
    public boolean hasNext() {
      if (!ready.hasNext() && rows.hasNext()) {
        ready = compute(inference.next(rows)).iterator();
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

    private Tensor sent(List<T> batch) {
      try {
        return inference.batch(batch, feeder);
      } catch (IllegalArgumentException wrongRow) {
        throw HarmonicsPlugin.giveUp(wrongRow);
      }
    }

    private List<R> compute(List<T> batch) {
      Tensor input = sent(batch);
      try (NamedTensors outputs =
          runtime.infer(Map.of(inference.input.producer(), input))) {
        List<float[]> each = inference.split(outputs, batch.size());
        List<R> joined = new ArrayList<>();
        for (int row = 0; row < batch.size(); row++) {
          joined.add(join.join(batch.get(row), each.get(row)));
        }
        return joined;
      }
    }
  }
}
