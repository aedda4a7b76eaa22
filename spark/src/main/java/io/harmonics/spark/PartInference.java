package io.harmonics.spark;

import io.harmonics.DistributedScheduler;
import io.harmonics.HarmonicGraph;
import io.harmonics.HarmonicsException;
import io.harmonics.NamedTensors;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.Partitioner;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;
import scala.Tuple2;

/**
 * One part of a graph that computes outputs together with the tasks that have the others. Rows
 * enter in the first part and leave in the last; batches follow each other through the parts.
 */
final class PartInference implements Iterator<Tuple2<Long, float[]>> {
  /** Cuts the numbers 0..count-1 into stretches, each {@code spread} partitions after the last. */
  static final class Stretches extends Partitioner {
    private static final long serialVersionUID = 1L;

    private final long count;
    private final int stretches;
    private final int spread;

    Stretches(long count, int stretches, int spread) {
      this.count = count;
      this.stretches = stretches;
      this.spread = spread;
    }

    @Override
    public int numPartitions() {
      return stretches * spread;
    }

    @Override
    public int getPartition(Object key) {
      return (int) ((Long) key * stretches / count) * spread;
    }

    long first(int stretch) {
      return (stretch * count + stretches - 1) / stretches;
    }
  }

  private final Inference inference;
  private final Iterator<Tuple2<Long, float[]>> rows;
  private final DistributedScheduler scheduler;
  private final Pulse pulse;
  private final boolean first;
  private final boolean last;
  private final long end;
  private long next;
  private Iterator<Tuple2<Long, float[]>> ready =
      List.<Tuple2<Long, float[]>>of().iterator();

  PartInference(
      GangMember member,
      Layout layout,
      Inference inference,
      Stretches stretches,
      Iterator<Tuple2<Long, float[]>> rows)
      throws Exception {
    this.inference = inference;
    this.rows = rows;
    int copy = layout.replicaOf(member.index());
    next = stretches.first(copy);
    end = stretches.first(copy + 1);
    byte[] blob = layout.blobs().get(layout.partOf(member.index()));
    try (HarmonicGraph part = HarmonicGraph.decode(blob)) {
      first = part.producers().contains(inference.input().producer());
      last = part.consumers().contains(inference.output());
      int threads = Math.max(1, TaskContext.get().cpus());
      scheduler =
          new DistributedScheduler(
              List.of(part), Map.of("run", member.run(), "threads", threads));
      TaskCompletionListener atEnd = ended -> close();
      TaskContext.get().addTaskCompletionListener(atEnd);
      new Boundaries(member, layout, new TrainingJob()).connect(part, scheduler, false);
    }
    pulse = new Pulse(member, scheduler);
    try {
      inference.load(scheduler); // meets the other parts
    } catch (HarmonicsException error) {
      throw pulse.explain(error);
    }
  }

  @Override
  public boolean hasNext() {
    while (!ready.hasNext() && next < end) {
      ready = compute().iterator();
    }
    if (!ready.hasNext()) {
      close();
    }
    return ready.hasNext();
  }

  @Override
  public Tuple2<Long, float[]> next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return ready.next();
  }

  /** One batch; its outputs in the last part. */
  private List<Tuple2<Long, float[]>> compute() {
    int count = (int) Math.min(inference.batchSize(), end - next);
    long start = next;
    next += count;
    try (NamedTensors outputs = scheduler.infer(first ? batch(count) : Map.of())) {
      List<Tuple2<Long, float[]>> made = new ArrayList<>();
      if (last) {
        List<float[]> each = inference.split(outputs, count);
        for (int row = 0; row < count; row++) {
          made.add(new Tuple2<>(start + row, each.get(row)));
        }
      }
      return made;
    } catch (HarmonicsException error) {
      throw pulse.explain(error);
    }
  }

  private Map<String, io.harmonics.Tensor> batch(int count) {
    List<float[]> batch = new ArrayList<>();
    while (batch.size() < count && rows.hasNext()) {
      batch.add(rows.next()._2());
    }
    if (batch.size() < count) {
      throw new IllegalStateException(
          "the data gave fewer rows than when they were counted: cache it");
    }
    return Map.of(
        inference.input().producer(), inference.batch(batch, Inference::putFloats));
  }

  private void close() {
    if (pulse != null) {
      pulse.close();
    }
    scheduler.close();
  }
}
