package io.harmonics;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/**
 * The rows of a CSV file.
 *
 * <pre>{@code
 * new CsvProducer("digits.csv", Map.of("columns", "0-63", "scale", 0.0625))
 * }</pre>
 */
public final class CsvProducer extends Producer {
  /** All columns as float32. */
  public CsvProducer(String path) {
    this(path, Map.of());
  }

  /**
   * {@code options}: {@code columns} (numbers from 0, ranges and header names with commas between
   * them), {@code dtype}, {@code scale} (of float dtypes), {@code shape} (a list), {@code header}
   * (a truth value, or {@code "auto"}), {@code delimiter} and {@code row_limit}.
   */
  public CsvProducer(String path, Map<String, ?> options) {
    super(
        Native.producerCsv(Native.utf8(path), Native.utf8(settings(options)), rowLimit(options)));
  }

  private static long rowLimit(Map<String, ?> options) {
    Object limit = options.get("row_limit");
    if (limit == null) {
      return 0;
    }
    if (!(limit instanceof Number number) || number.longValue() < 1) {
      throw new IllegalArgumentException("row_limit: at least 1 row is needed, not " + limit);
    }
    return number.longValue();
  }

  private static String settings(Map<String, ?> options) {
    return options.entrySet().stream()
        .filter(option -> !option.getKey().equals("row_limit"))
        .map(option -> option.getKey() + "=" + encoded(text(option.getValue())))
        .collect(Collectors.joining("&"));
  }

  private static String text(Object value) {
    if (value instanceof Boolean truth) {
      return truth ? "yes" : "no";
    }
    if (value instanceof Collection<?> axes) {
      return axes.stream().map(String::valueOf).collect(Collectors.joining("x"));
    }
    if (value instanceof long[] axes) {
      return LongStream.of(axes).mapToObj(Long::toString).collect(Collectors.joining("x"));
    }
    return String.valueOf(value);
  }

  private static String encoded(String value) {
    return URLEncoder.encode(value, StandardCharsets.UTF_8).replace("+", "%20");
  }
}
