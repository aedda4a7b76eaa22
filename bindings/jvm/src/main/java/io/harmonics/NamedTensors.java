package io.harmonics;

import java.util.LinkedHashMap;
import java.util.Map;

/** Tensors by name, in native memory until this is closed. */
public final class NamedTensors extends NativeObject {
  private final Map<String, Tensor> tensors = new LinkedHashMap<>();

  NamedTensors(long handle) {
    super(handle, Native::tensorsFree);
    for (int i = 0; i < Native.tensorsCount(handle); i++) {
      tensors.put(
          Native.text(Native.tensorName(handle, i)),
          new Tensor(
              Native.text(Native.tensorDtype(handle, i)),
              Native.tensorShape(handle, i),
              Native.tensorData(handle, i),
              this));
    }
  }

  /**
   * One tensor whose values are yet to be set. Its memory is used again once this is closed: what
   * is made and closed often costs less than a buffer of Java's own.
   */
  public static NamedTensors empty(String name, String dtype, long... shape) {
    return new NamedTensors(Native.tensorsEmpty(Native.utf8(name), Native.utf8(dtype), shape));
  }

  /** The tensor of that name; an exception that lists the names when there is none. */
  public Tensor get(String name) {
    Tensor found = tensors.get(name);
    if (found == null) {
      throw new IllegalArgumentException("no tensor '" + name + "'; there are " + tensors.keySet());
    }
    return found;
  }

  public Map<String, Tensor> asMap() {
    return Map.copyOf(tensors);
  }
}
