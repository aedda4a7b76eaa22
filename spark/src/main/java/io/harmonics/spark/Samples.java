package io.harmonics.spark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.sql.Row;
import scala.jdk.javaapi.CollectionConverters;

/**
 * How the rows of a data frame become the samples of one producer.
 *
 * @param columns where its numbers stand; a column may hold a number, a truth value, an array or a
 *     vector
 * @param shape of a sample
 */
record Samples(String producer, ArrayList<Integer> columns, String dtype, long[] shape)
    implements Serializable {

  /** Bytes of one sample. */
  int bytes() {
    long elements = 1;
    for (long axis : shape) {
      elements *= axis;
    }
    return Math.toIntExact(elements * width(dtype));
  }

  /** Appends a row's sample; another number of numbers than the shape has is an error. */
  void put(Row row, ByteBuffer out) {
    int wanted = bytes() / width(dtype);
    List<Number> numbers = numbers(row, columns);
    if (numbers.size() != wanted) {
      throw new IllegalArgumentException("producer '" + producer + "' takes " + wanted
          + " numbers, a row holds " + numbers.size());
    }
    numbers.forEach(number -> put(number, out));
  }

  /** All numbers of these columns one after another. */
  static List<Number> numbers(Row row, List<Integer> columns) {
    List<Number> all = new ArrayList<>();
    columns.forEach(column -> add(row.get(column), row, column, all));
    return all;
  }

  private static void add(Object value, Row row, int column, List<Number> all) {
    if (value instanceof Number number) {
      all.add(number);
    } else if (value instanceof Boolean truth) {
      all.add(truth ? 1 : 0);
    } else if (value instanceof Vector vector) {
      for (double element : vector.toArray()) {
        all.add(element);
      }
    } else if (value instanceof scala.collection.Seq<?> list) {
      CollectionConverters.asJava(list).forEach(element -> add(element, row, column, all));
    } else {
      String name = row.schema() == null ? "" + column : row.schema().fieldNames()[column];
      throw new IllegalArgumentException(
          "column '" + name + "' holds " + (value == null ? "null" : value.getClass().getName())
              + "; numbers, truth values, arrays and vectors of them can be read");
    }
  }

  private void put(Number number, ByteBuffer out) {
    switch (dtype) {
      case "float32" -> out.putFloat(number.floatValue());
      case "float64" -> out.putDouble(number.doubleValue());
      case "int64" -> out.putLong(whole(number));
      case "int32" -> out.putInt(Math.toIntExact(whole(number)));
      default -> out.put((byte) whole(number));
    }
  }

  private long whole(Number number) {
    if (number.doubleValue() != Math.rint(number.doubleValue())) {
      throw new IllegalArgumentException(
          "producer '" + producer + "' takes whole numbers (" + dtype + "), not " + number);
    }
    return number.longValue();
  }

  private static int width(String dtype) {
    return switch (dtype) {
      case "float64", "int64" -> 8;
      case "float32", "int32" -> 4;
      case "int8", "uint8", "bool" -> 1;
      default -> throw new IllegalArgumentException("a data frame cannot feed " + dtype);
    };
  }
}
