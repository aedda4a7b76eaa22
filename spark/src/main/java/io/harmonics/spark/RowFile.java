package io.harmonics.spark;

import io.harmonics.Producer;
import io.harmonics.RowProducer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import java.util.List;
import scala.Tuple2;

/**
 * The rows of a data frame that came to a task, in a file of this machine, so that they may be more
 * than fit into memory and can be read in any order. A record is a row's samples for all producers
 * of the task's part, one after another.
 */
final class RowFile implements AutoCloseable {
  private final Path path;
  private final FileChannel file;
  private final List<Samples> fields;
  private final int record;
  private final long count;

  /** Takes all rows over; fewer or more than {@code count} are an error. */
  RowFile(List<Samples> fields, long count, Iterator<Tuple2<Long, byte[]>> rows)
      throws IOException {
    this.fields = fields;
    this.record = fields.stream().mapToInt(Samples::bytes).sum();
    this.count = count;
    this.path = Files.createTempFile("harmonics", ".rows");
    this.file = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
    boolean whole = false;
    try {
      store(rows);
      whole = true;
    } finally {
      if (!whole) {
        close();
      }
    }
  }

  /** The samples of one producer, in the order of the data frame; null when it takes none. */
  Producer samples(String producer) {
    int before = 0;
    for (Samples field : fields) {
      if (field.producer().equals(producer)) {
        int offset = before;
        return new RowProducer(
            field.dtype(),
            field.shape(),
            count,
            (rows, out) -> read(rows, offset, field.bytes(), out));
      }
      before += field.bytes();
    }
    return null;
  }

  private void store(Iterator<Tuple2<Long, byte[]>> rows) throws IOException {
    Gathered gathered = new Gathered(file, record);
    long came = 0;
    for (; rows.hasNext(); came++) {
      Tuple2<Long, byte[]> row = rows.next();
      if (row._1() >= count || row._2().length != record) {
        throw new IllegalStateException(changed());
      }
      gathered.put(row._1(), row._2());
    }
    gathered.flush();
    if (came != count) {
      throw new IllegalStateException(changed());
    }
  }

  private String changed() {
    return "the data frame gave other rows than when its " + count + " rows were counted: cache it";
  }

  private void read(long[] rows, int offset, int size, ByteBuffer out) {
    try {
      for (long row : rows) {
        int end = out.position() + size;
        out.limit(end);
        while (out.hasRemaining()) {
          int done = out.position() - (end - size);
          if (file.read(out, row * record + offset + done) < 0) {
            throw new IOException("'" + path + "' was cut off");
          }
        }
        out.limit(out.capacity());
      }
    } catch (IOException error) {
      throw new IllegalStateException("rows cannot be read: " + error.getMessage(), error);
    }
  }

  @Override
  public void close() throws IOException {
    file.close();
    Files.deleteIfExists(path);
  }

  /** Writes neighbouring records at once. */
  private static final class Gathered {
    private final FileChannel file;
    private final int record;
    private final ByteBuffer buffer;
    private long first;

    Gathered(FileChannel file, int record) {
      this.file = file;
      this.record = record;
      this.buffer = ByteBuffer.allocate(Math.max(record, 1 << 20)).order(ByteOrder.nativeOrder());
    }

    void put(long row, byte[] bytes) throws IOException {
      int waiting = record == 0 ? 0 : buffer.position() / record;
      if (row != first + waiting || buffer.remaining() < record) {
        flush();
        first = row;
      }
      buffer.put(bytes);
    }

    void flush() throws IOException {
      buffer.flip();
      for (long at = first * record; buffer.hasRemaining(); ) {
        at += file.write(buffer, at);
      }
      buffer.clear();
    }
  }
}
