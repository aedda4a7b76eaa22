package io.harmonics.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.harmonics.HarmonicGraph;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Data that lies in HDFS: a name node and a data node in this process. */
class HadoopIT {
  private static SparkSession session;
  private static MiniDFSCluster hdfs;
  private static String folder;

  @BeforeAll
  static void start(@TempDir Path store) throws Exception {
    session = LocalCluster.start(LocalCluster.TWO_EXECUTORS);
    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, store.toString());
    hdfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    hdfs.waitActive();
    FileSystem system = hdfs.getFileSystem();
    system.copyFromLocalFile(
        new org.apache.hadoop.fs.Path(Digits.FILE.toString()),
        new org.apache.hadoop.fs.Path("/data/digits.csv"));
    folder = hdfs.getURI() + "/data/";
  }

  @AfterAll
  static void stop() {
    hdfs.shutdown(true);
  }

  @Test
  void tasksReadHdfsWhereItIs() throws Exception {
    LocalCluster.whole();
    try (HarmonicGraph graph = Digits.graph()) {
      TrainingResult result =
          new HarmonicsSpark(session).layerParallel(graph, Digits.job(folder + "digits.csv"));
      assertEquals(Digits.nativeDigest(2), result.weightsDigest());
      assertEquals(2, result.processes().size());
    }
  }

  @Test
  void aFileThatIsNotThereIsNamed() {
    try (HarmonicGraph graph = Digits.graph()) {
      IllegalStateException error =
          assertThrows(
              IllegalStateException.class,
              () ->
                  new HarmonicsSpark(session)
                      .layerParallel(graph, Digits.job(folder + "missing.csv")));
      assertTrue(error.getMessage().contains("/data/missing.csv"), error.getMessage());
    }
  }
}
