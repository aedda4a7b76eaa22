package io.harmonics;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** An immutable graph: mirrors the C++ class of the same name. */
public final class HarmonicGraph extends NativeObject {
  private HarmonicGraph(long handle) {
    super(handle, Native::graphFree);
  }

  /** Reads a .harp file. */
  public static HarmonicGraph load(Path path) {
    return new HarmonicGraph(Native.graphLoad(Native.utf8(path.toString())));
  }

  /** Reads .harp text. */
  public static HarmonicGraph parse(String text) {
    return new HarmonicGraph(Native.graphParse(Native.utf8(text)));
  }

  /** A well-known network, for instance {@code digits-mlp}. */
  public static HarmonicGraph zoo(String name) {
    return new HarmonicGraph(Native.graphZoo(Native.utf8(name)));
  }

  /** The graph that {@link #encode} wrote. */
  public static HarmonicGraph decode(byte[] blob) {
    return new HarmonicGraph(Native.graphDecode(blob));
  }

  /** The graph as bytes: how parts travel. */
  public byte[] encode() {
    return Native.graphEncode(handle());
  }

  /** The same graph with open shapes filled in from the data that will be bound. */
  public HarmonicGraph resolvedWith(Map<String, ? extends Producer> producers) {
    List<String> names = new ArrayList<>(producers.keySet());
    long[] handles = names.stream().mapToLong(name -> producers.get(name).handle()).toArray();
    return new HarmonicGraph(Native.graphResolve(handle(), Native.utf8(names), handles));
  }

  /** Cuts the graph; the parts in order. Closing them is the caller's. */
  public List<HarmonicGraph> partition(int parts) {
    return Arrays.stream(Native.graphPartition(handle(), parts))
        .mapToObj(HarmonicGraph::new)
        .toList();
  }

  public String name() {
    return (String) describe().get("name");
  }

  public int layerCount() {
    return ((Long) describe().get("layers")).intValue();
  }

  /** Whether the graph has a training tap. */
  public boolean learns() {
    return (Boolean) describe().get("learns");
  }

  /** Whether every shape is known. */
  public boolean resolved() {
    return (Boolean) describe().get("resolved");
  }

  /** Producers that read data here. */
  public List<String> producers() {
    return names("producers", false);
  }

  /** Consumers that take results here. */
  public List<String> consumers() {
    return names("consumers", false);
  }

  /** Boundaries over which tensors enter this part. */
  public List<String> entering() {
    return names("producers", true);
  }

  /** Boundaries over which tensors leave this part. */
  public List<String> leaving() {
    return names("consumers", true);
  }

  /** The dtype of a producer, for instance {@code float32}. */
  public String dtype(String producer) {
    return (String) node(producer).get("dtype");
  }

  /** The shape of a producer's samples; null while it is open. */
  public long[] shape(String producer) {
    List<?> axes = (List<?>) node(producer).get("shape");
    return axes == null ? null : axes.stream().mapToLong(axis -> (Long) axis).toArray();
  }

  @SuppressWarnings("unchecked")
  private Map<String, Object> node(String producer) {
    return ((List<Map<String, Object>>) (List<?>) describe().get("producers"))
        .stream()
            .filter(node -> node.get("name").equals(producer))
            .findFirst()
            .orElseThrow(
                () ->
                    new IllegalArgumentException(
                        "no producer '" + producer + "'; there are " + producers()));
  }

  private Map<String, Object> describe() {
    return Json.object(Native.text(Native.graphDescribe(handle())));
  }

  @SuppressWarnings("unchecked")
  private List<String> names(String kind, boolean boundary) {
    return ((List<Map<String, Object>>) (List<?>) describe().get(kind))
        .stream()
            .filter(node -> node.get("boundary").equals(boundary))
            .map(node -> (String) node.get("name"))
            .toList();
  }
}
