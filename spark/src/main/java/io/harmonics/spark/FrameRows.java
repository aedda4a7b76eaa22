package io.harmonics.spark;

import io.harmonics.HarmonicGraph;
import io.harmonics.Producer;
import io.harmonics.RowProducer;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.spark.Partitioner;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import scala.Tuple2;

/**
 * The rows of a data frame or an RDD on their way to the members of a gang. They go through an
 * ordinary shuffle, from executor to executor: what is lost with an executor is made again, and the
 * driver sees none.
 */
final class FrameRows {
  /**
   * What every task knows of them.
   *
   * @param fields by producer
   */
  record Plan(LinkedHashMap<String, Samples> fields, long count) implements Serializable {
    /** Those that a part reads, in the order of their names in a record. */
    List<Samples> of(HarmonicGraph part) {
      return part.producers().stream().filter(fields::containsKey).map(fields::get).toList();
    }
  }

  private final JavaRDD<Row> rows;
  private final LinkedHashMap<String, ArrayList<Integer>> columns = new LinkedHashMap<>();
  private final Map<String, Integer> widths = new HashMap<>();

  /**
   * Those of the job's data frame or RDD; null when it has neither. Looks at the first row; a
   * column that is not there is an error that lists what there is.
   */
  static FrameRows of(TrainingJob job) {
    if (job.frame != null) {
      List<String> there = Arrays.asList(job.frame.columns());
      List<String> wanted =
          job.columns.values().stream().flatMap(List::stream).distinct().toList();
      wanted.forEach(column -> place(column, there));
      Dataset<Row> chosen =
          job.frame.select(
              wanted.stream()
                  .map(name -> job.frame.col("`" + name + "`"))
                  .toArray(org.apache.spark.sql.Column[]::new));
      JavaRDD<Row> rows = chosen.javaRDD();
      return new FrameRows(rows, first(rows), wanted, job.columns);
    }
    if (job.rdd == null) {
      return null;
    }
    Row first = first(job.rdd);
    List<String> there =
        first.schema() == null
            ? IntStream.rangeClosed(1, first.size()).mapToObj(i -> "_" + i).toList()
            : List.of(first.schema().fieldNames());
    return new FrameRows(job.rdd, first, there, job.columns);
  }

  private FrameRows(
      JavaRDD<Row> rows, Row first, List<String> names, Map<String, List<String>> wanted) {
    this.rows = rows;
    wanted.forEach(
        (producer, its) -> {
          ArrayList<Integer> places = new ArrayList<>();
          its.forEach(column -> places.add(place(column, names)));
          columns.put(producer, places);
          widths.put(producer, Samples.numbers(first, places).size());
        });
  }

  private static int place(String column, List<String> names) {
    int found = names.indexOf(column);
    if (found < 0) {
      throw new IllegalArgumentException(
          "there is no column '" + column + "'; there are " + String.join(", ", names));
    }
    return found;
  }

  private static Row first(JavaRDD<Row> rows) {
    List<Row> first = rows.take(1);
    if (first.isEmpty()) {
      throw new IllegalArgumentException("there are no rows to learn from");
    }
    return first.get(0);
  }

  /** The graph, as a new one, with open shapes filled in from the columns. */
  HarmonicGraph resolve(HarmonicGraph graph) {
    Map<String, Producer> producers = new LinkedHashMap<>();
    widths.forEach(
        (producer, width) ->
            producers.put(
                producer,
                new RowProducer(
                    graph.dtype(producer), new long[] {width}, 0, (asked, out) -> {})));
    return graph.resolvedWith(producers);
  }

  /** For a graph whose shapes are all known. Counts the rows. */
  Plan plan(HarmonicGraph graph) {
    LinkedHashMap<String, Samples> fields = new LinkedHashMap<>();
    columns.forEach(
        (producer, places) ->
            fields.put(
                producer,
                new Samples(producer, places, graph.dtype(producer), graph.shape(producer))));
    return new Plan(fields, rows.count());
  }

  /** A partition per member with the rows that it reads, each with its number. */
  JavaRDD<Tuple2<Long, byte[]>> seats(Layout layout, Plan plan) {
    ArrayList<ArrayList<Samples>> perPart = new ArrayList<>();
    for (byte[] blob : layout.blobs()) {
      try (HarmonicGraph part = HarmonicGraph.decode(blob)) {
        perPart.add(new ArrayList<>(plan.of(part)));
      }
    }
    int members = layout.members();
    int parts = layout.parts();
    return rows.zipWithIndex()
        .flatMapToPair(
            row -> {
              List<Tuple2<Integer, Tuple2<Long, byte[]>>> sent = new ArrayList<>();
              for (int part = 0; part < parts; part++) {
                if (perPart.get(part).isEmpty()) {
                  continue;
                }
                Tuple2<Long, byte[]> made =
                    new Tuple2<>(row._2(), record(row._1(), perPart.get(part)));
                for (int member = part; member < members; member += parts) {
                  sent.add(new Tuple2<>(member, made));
                }
              }
              return sent.iterator();
            })
        .partitionBy(new Seats(members))
        .values();
  }

  private static byte[] record(Row row, List<Samples> fields) {
    ByteBuffer bytes =
        ByteBuffer.allocate(fields.stream().mapToInt(Samples::bytes).sum())
            .order(ByteOrder.nativeOrder());
    fields.forEach(field -> field.put(row, bytes));
    return bytes.array();
  }

  /** Keys are the numbers of the members. */
  static final class Seats extends Partitioner {
    private static final long serialVersionUID = 1L;

    private final int members;

    Seats(int members) {
      this.members = members;
    }

    @Override
    public int numPartitions() {
      return members;
    }

    @Override
    public int getPartition(Object key) {
      return (Integer) key;
    }
  }
}
