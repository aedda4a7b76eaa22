package io.harmonics.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What computes the parts of a job: the deployment descriptor that every task gets. Without it each
 * executor uses the best that it has.
 *
 * <pre>{@code
 * new Deployment().backend("gpu").part(1, "fpga").strict(true)
 * }</pre>
 */
public final class Deployment implements Serializable {
  private static final long serialVersionUID = 1L;

  private static final List<String> BACKENDS = List.of("cpu", "gpu", "fpga", "auto");

  private final Map<Integer, String> parts = new LinkedHashMap<>();
  private String backend = "auto";
  private boolean strict;

  /** {@code cpu}, {@code gpu}, {@code fpga} or {@code auto}, for all parts that are not named. */
  public Deployment backend(String name) {
    backend = checked(name);
    return this;
  }

  /** Another backend for one part, counted from 0. */
  public Deployment part(int number, String name) {
    parts.put(number, checked(name));
    return this;
  }

  private static String checked(String name) {
    if (!BACKENDS.contains(name)) {
      throw new IllegalArgumentException(
          "there is no backend '" + name + "'; there are " + String.join(", ", BACKENDS));
    }
    return name;
  }

  /** A part that the job does not have is an error. */
  void check(int count) {
    for (int number : parts.keySet()) {
      if (number < 0 || number >= count) {
        throw new IllegalArgumentException(
            "a backend for part " + number + ", but the job has the parts 0 to " + (count - 1));
      }
    }
  }

  /** A backend that an executor lacks is an error, not a warning and the CPU. */
  public Deployment strict(boolean error) {
    strict = error;
    return this;
  }

  /**
   * The settings of a task: its part's backend, and the device that Spark gave the task as a
   * resource named like the backend ({@code spark.task.resource.gpu.amount}).
   *
   * @param resources addresses by the name of the resource
   */
  Map<String, Object> settings(int part, Map<String, String[]> resources) {
    String name = parts.getOrDefault(part, backend);
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("backend", name);
    for (String kind : name.equals("auto") ? List.of("gpu", "fpga") : List.of(name)) {
      String[] addresses = resources.get(kind);
      if (addresses != null && addresses.length > 0 && addresses[0].matches("\\d{1,9}")) {
        entry.put("backend", kind);
        entry.put("device", Long.valueOf(addresses[0]));
        break;
      }
    }
    Map<String, Object> settings = new LinkedHashMap<>();
    settings.put("deploy", new ArrayList<>(List.of(entry)));
    settings.put("strict", strict);
    return settings;
  }
}
