package io.harmonics.spark;

import io.harmonics.HarmonicGraph;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;

/**
 * Which member of a gang does what: {@code replicas} copies of {@code parts} parts. The copies of
 * one part stand {@code parts} members apart; the parts of one copy stand side by side, so that
 * Spark may place neighbours together.
 *
 * @param blobs the parts as bytes
 * @param senders by boundary, the part that sends it
 * @param takers by boundary, the part that takes it
 */
record Layout(
    int replicas,
    ArrayList<byte[]> blobs,
    HashMap<String, Integer> senders,
    HashMap<String, Integer> takers)
    implements Serializable {

  static Layout of(HarmonicGraph graph, int parts, int replicas) {
    if (replicas < 1) {
      throw new IllegalArgumentException("a job has at least one replica, not " + replicas);
    }
    Layout made = new Layout(replicas, new ArrayList<>(), new HashMap<>(), new HashMap<>());
    List<HarmonicGraph> pieces = parts == 1 ? List.of() : graph.partition(parts);
    if (parts == 1) {
      made.blobs.add(graph.encode());
    }
    for (HarmonicGraph piece : pieces) {
      int number = made.blobs.size();
      piece.leaving().forEach(name -> made.senders.put(name, number));
      piece.entering().forEach(name -> made.takers.put(name, number));
      made.blobs.add(piece.encode());
      piece.close();
    }
    return made;
  }

  int parts() {
    return blobs.size();
  }

  int members() {
    return parts() * replicas;
  }

  int partOf(int member) {
    return member % parts();
  }

  int replicaOf(int member) {
    return member / parts();
  }

  /** The member that has that part of the same copy. */
  int inCopyOf(int member, int part) {
    return replicaOf(member) * parts() + part;
  }

  /** The members that have the same part, in the order of the copies. */
  int sibling(int member, int replica) {
    return replica * parts() + partOf(member);
  }

  /** A boundary's name within a whole job, where every copy has one of that name. */
  String place(String boundary, int member) {
    return boundary + "~" + replicaOf(member);
  }
}
