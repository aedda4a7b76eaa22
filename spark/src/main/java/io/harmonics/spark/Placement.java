package io.harmonics.spark;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/** Where the members of a gang would like to run: the parts of one copy on one machine. */
final class Placement {
  private Placement() {}

  /**
   * A host for every member; empty when there is nothing to choose. Copies go to the hosts with the
   * most free executors first, and never to one that is too small while a larger one is free.
   *
   * @param executors how many each host has
   */
  static List<String> of(int parts, int replicas, Map<String, Integer> executors) {
    if (executors.size() < 2 || parts < 2) {
      return List.of();
    }
    List<String> hosts = new ArrayList<>(executors.keySet());
    List<Integer> free = new ArrayList<>();
    hosts.sort(Comparator.naturalOrder());
    hosts.forEach(host -> free.add(executors.get(host)));
    List<String> chosen = new ArrayList<>();
    for (int replica = 0; replica < replicas; replica++) {
      int best = 0;
      for (int host = 1; host < hosts.size(); host++) {
        best = free.get(host) > free.get(best) ? host : best;
      }
      free.set(best, free.get(best) - parts);
      for (int part = 0; part < parts; part++) {
        chosen.add(hosts.get(best));
      }
    }
    return chosen;
  }
}
