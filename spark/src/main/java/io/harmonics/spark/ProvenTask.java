package io.harmonics.spark;

import io.harmonics.DistributedScheduler;
import io.harmonics.HarmonicGraph;
import io.harmonics.HarmonicsException;
import io.harmonics.NamedTensors;
import io.harmonics.Tensor;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import scala.Tuple2;

/** What one task of a job that proves does: one part of an int8 network, over all rows. */
final class ProvenTask {
  /**
   * What a task answers.
   *
   * @param outputs by row; empty in all parts but the last
   */
  record Answer(String process, Proof proof, ArrayList<float[]> outputs) implements Serializable {}

  /**
   * What all tasks of a job share.
   *
   * @param network the file of the int8 network
   * @param count rows in all
   */
  record Shared(Layout layout, TrainingJob job, Inference inference, byte[] network, long count)
      implements Serializable {}

  private final GangMember member;
  private final Shared shared;

  ProvenTask(GangMember member, Shared shared) {
    this.member = member;
    this.shared = shared;
  }

  /** {@code rows} are all rows in their order in the first part, none in the others. */
  Answer run(Iterator<Tuple2<Long, float[]>> rows) throws Exception {
    int number = shared.layout().partOf(member.index());
    Path network = Files.createTempFile("harmonics", ".int8");
    try (HarmonicGraph part = HarmonicGraph.decode(shared.layout().blobs().get(number));
        Proof.Place place = new Proof.Place("", number)) {
      Files.write(network, shared.network());
      try (DistributedScheduler scheduler =
          new DistributedScheduler(List.of(part), settings(place, network))) {
        new Boundaries(member, shared.layout(), shared.job()).connect(part, scheduler, false);
        ArrayList<float[]> outputs = compute(scheduler, part, rows);
        String process = Long.toString(ProcessHandle.current().pid());
        return new Answer(process, place.proof(scheduler), outputs);
      }
    } finally {
      Files.deleteIfExists(network);
    }
  }

  private Map<String, Object> settings(Proof.Place place, Path network) {
    Map<String, Object> settings = new LinkedHashMap<>(place.settings(shared.job().secureKeys));
    settings.put("secure_proofs", network.toString());
    settings.put("run", member.run());
    settings.put("threads", Math.max(1, TaskContext.get().cpus()));
    return settings;
  }

  /** In touch with the driver; stops when another member fails. */
  private ArrayList<float[]> compute(
      DistributedScheduler scheduler, HarmonicGraph part, Iterator<Tuple2<Long, float[]>> rows)
      throws IOException {
    try (Pulse pulse = new Pulse(member, scheduler)) {
      try {
        ArrayList<float[]> outputs = computeAll(scheduler, part, rows);
        scheduler.seal();
        pulse.check();
        return outputs;
      } catch (HarmonicsException error) {
        throw pulse.explain(error);
      }
    }
  }

  private ArrayList<float[]> computeAll(
      DistributedScheduler scheduler, HarmonicGraph part, Iterator<Tuple2<Long, float[]>> rows) {
    Inference inference = shared.inference();
    boolean first = part.producers().contains(inference.input().producer());
    boolean last = part.consumers().contains(inference.output());
    ArrayList<float[]> outputs = new ArrayList<>();
    for (long done = 0; done < shared.count(); done += inference.batchSize()) {
      int count = (int) Math.min(inference.batchSize(), shared.count() - done);
      try (NamedTensors made = scheduler.infer(first ? batch(rows, count) : Map.of())) {
        if (last) {
          outputs.addAll(inference.split(made, count));
        }
      }
    }
    return outputs;
  }

  private Map<String, Tensor> batch(Iterator<Tuple2<Long, float[]>> rows, int count) {
    List<float[]> batch = new ArrayList<>();
    while (batch.size() < count && rows.hasNext()) {
      batch.add(rows.next()._2());
    }
    if (batch.size() < count) {
      throw new IllegalStateException(
          "the data gave fewer rows than when they were counted: cache it");
    }
    Inference inference = shared.inference();
    return Map.of(inference.input().producer(), inference.batch(batch, Inference::putFloats));
  }
}
