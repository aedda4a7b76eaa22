package io.harmonics.spark;

import io.harmonics.BatchProducer;
import io.harmonics.DistributedScheduler;
import io.harmonics.HarmonicGraph;
import io.harmonics.MessageBus;
import io.harmonics.NamedTensors;
import io.harmonics.Producer;
import io.harmonics.Reduction;
import io.harmonics.ShuffleProducer;
import io.harmonics.Tensor;
import io.harmonics.Transport;
import io.harmonics.Weights;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** The native reduction in threads of this process: what replicas in tasks must come to. */
final class NativeReplicas {
  private NativeReplicas() {}

  /** The digest after two epochs of {@code replicas} copies of the digits' graph in parts. */
  static String digest(int parts, int replicas) throws Exception {
    Map<String, Object> settings = new HashMap<>(Digits.SETTINGS);
    settings.put("micro_batches", 1);
    ExecutorService pool = Executors.newFixedThreadPool(replicas);
    try (HarmonicGraph graph = Digits.graph()) {
      List<Future<String>> runs = new ArrayList<>();
      for (int replica = 0; replica < replicas; replica++) {
        DistributedScheduler scheduler = new DistributedScheduler(
            parts == 1 ? List.of(graph) : graph.partition(parts), settings);
        scheduler.bindProducer("image", batches(Digits.images(Digits.FILE)));
        scheduler.bindProducer("label", batches(Digits.labels(Digits.FILE)));
        Map<Integer, Transport> peers = new TreeMap<>();
        for (int other : Reduction.TREE.peers(replica, replicas)) {
          String way = Math.min(replica, other) + "-" + Math.max(replica, other);
          peers.put(other, MessageBus.open("native" + parts + "/" + way));
        }
        scheduler.joinReplicas(Reduction.TREE, replica, replicas, peers);
        runs.add(pool.submit(() -> train(scheduler)));
      }
      String first = runs.get(0).get(2, TimeUnit.MINUTES);
      for (Future<String> run : runs) {
        if (!run.get(2, TimeUnit.MINUTES).equals(first)) {
          throw new IllegalStateException("the replicas differ");
        }
      }
      return first;
    } finally {
      pool.shutdownNow();
    }
  }

  private static String train(DistributedScheduler scheduler) {
    try (scheduler) {
      scheduler.fit(2);
      try (NamedTensors parameters = scheduler.parameters()) {
        Map<String, Tensor> named = parameters.asMap();
        return Weights.digest(named);
      }
    }
  }

  private static Producer batches(String source) {
    return new BatchProducer(new ShuffleProducer(Producer.open(source, Path.of("."))), 32);
  }
}
