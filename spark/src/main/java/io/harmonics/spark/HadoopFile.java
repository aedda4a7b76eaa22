package io.harmonics.spark;

import io.harmonics.ByteReader;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A file of any Hadoop file system, read where native code asks for it: nothing is copied to this
 * machine. The blocks read last are kept, since samples are read a row at a time and in any order.
 */
final class HadoopFile implements ByteReader, AutoCloseable {
  private static final int BLOCK_BYTES = 1 << 20;

  /** The most memory that one open file takes. */
  private static final int MAX_BLOCKS = 64;

  private final FSDataInputStream in;
  private final long size;
  private final Map<Long, byte[]> blocks =
      new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, byte[]> eldest) {
          return size() > MAX_BLOCKS;
        }
      };

  HadoopFile(String uri, Configuration conf) throws IOException {
    Path path = new Path(uri);
    FileSystem system = FileSystem.get(URI.create(uri), conf);
    size = system.getFileStatus(path).getLen();
    in = system.open(path);
  }

  long size() {
    return size;
  }

  @Override
  public synchronized void read(long offset, ByteBuffer out) throws IOException {
    for (long at = offset; out.hasRemaining(); ) {
      byte[] block = block(at / BLOCK_BYTES);
      int from = (int) (at % BLOCK_BYTES);
      int count = Math.min(block.length - from, out.remaining());
      if (count <= 0) {
        throw new IOException("the file ends at byte " + size);
      }
      out.put(block, from, count);
      at += count;
    }
  }

  private byte[] block(long number) throws IOException {
    byte[] known = blocks.get(number);
    if (known != null) {
      return known;
    }
    long from = number * BLOCK_BYTES;
    byte[] block = new byte[(int) Math.max(0, Math.min(BLOCK_BYTES, size - from))];
    in.readFully(from, block);
    blocks.put(number, block);
    return block;
  }

  @Override
  public void close() throws IOException {
    in.close();
  }
}
