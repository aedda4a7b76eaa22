package io.harmonics;

import java.io.Serializable;
import java.util.Map;
import java.util.Set;

/** What a step or a run came to, by name: {@code step}, {@code loss}, {@code samples} … */
public final class Report implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String json;
  private transient Map<String, Object> values;

  /** Of a report that was written as JSON. */
  public Report(String json) {
    this.json = json;
  }

  /** A whole number; an exception that lists what there is when it is missing. */
  public long number(String name) {
    return ((Number) value(name)).longValue();
  }

  public double real(String name) {
    return ((Number) value(name)).doubleValue();
  }

  public boolean has(String name) {
    return values().containsKey(name);
  }

  /** A report inside this one. */
  public Report inner(String name) {
    return new Report(Json.write(value(name)));
  }

  /** What there is. */
  public Set<String> names() {
    return values().keySet();
  }

  /** The whole report. */
  public String json() {
    return json;
  }

  @Override
  public String toString() {
    return json;
  }

  private Map<String, Object> values() {
    if (values == null) {
      values = Json.object(json);
    }
    return values;
  }

  private Object value(String name) {
    Object found = values().get(name);
    if (found == null) {
      throw new IllegalArgumentException("no '" + name + "' in " + json);
    }
    return found;
  }
}
