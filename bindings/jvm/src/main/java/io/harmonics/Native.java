package io.harmonics;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;

/** The native methods. Texts cross as UTF-8 bytes; objects are handles. */
final class Native {
  static {
    NativeLibrary.load();
  }

  private Native() {}

  static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static byte[][] utf8(Collection<String> texts) {
    return texts.stream().map(Native::utf8).toArray(byte[][]::new);
  }

  static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  /** Called by native code to put an exception of Java code into words. */
  @SuppressWarnings("unused")
  private static byte[] describe(Throwable thrown) {
    return utf8(thrown.getMessage() == null ? thrown.toString() : thrown.getMessage());
  }

  static native byte[] version();

  static native long graphLoad(byte[] path);
  static native long graphParse(byte[] text);
  static native long graphZoo(byte[] name);
  static native long graphDecode(byte[] blob);
  static native byte[] graphEncode(long graph);
  static native long graphResolve(long graph, byte[][] names, long[] producers);
  static native long[] graphPartition(long graph, int parts);
  static native byte[] graphDescribe(long graph);
  static native void graphFree(long graph);

  static native long producerCsv(byte[] path, byte[] settings, long rowLimit);
  static native long producerOpen(byte[] source, byte[] folder);
  static native long producerOpenBytes(byte[] source, long size, ByteReader reader);
  static native long producerRows(byte[] dtype, long[] shape, long rows, RowReader reader);
  static native long producerShuffle(long source);
  static native long producerBatch(long source, long size);
  static native long producerCache(long source, long limitBytes);
  static native long producerAugment(long source, byte[] options);
  static native long producerStride(long source, long first, long count);
  static native long producerSamples(long producer);
  static native void producerFree(long producer);

  static native long consumerMemory();
  static native long consumerTake(long consumer);
  static native void consumerFree(long consumer);

  static native long runtimeNew(long graph, byte[] settings);
  static native long distributedNew(long[] parts, byte[] settings);
  static native void engineBindEnd(long engine, byte[] name, boolean entering, long end);
  static native void engineJoinReplicas(
      long engine, byte[] order, int rank, int ranks, int[] peers, long[] ends);
  static native int[] reductionPeers(byte[] order, int rank, int ranks);
  static native long reducerNew(byte[] order, int rank, int ranks, int[] peers, long[] ends);
  static native long reducerSum(
      long reducer, byte[][] names, byte[][] dtypes, long[][] shapes, ByteBuffer[] data, long step);
  static native void reducerFree(long reducer);
  static native byte[] weightsDigest(
      byte[][] names, byte[][] dtypes, long[][] shapes, ByteBuffer[] data);
  static native void weightsSave(
      byte[] path, byte[][] names, byte[][] dtypes, long[][] shapes, ByteBuffer[] data);
  static native long weightsLoad(byte[] path);
  static native long remoteNew(
      long part, byte[][] producers, byte[][] consumers, byte[] settings);
  static native void engineBindProducer(long engine, byte[] name, long producer);
  static native void engineBindConsumer(long engine, byte[] name, long consumer);
  static native byte[] engineStep(long engine);
  static native byte[] engineFit(long engine, long epochs, byte[] options, StepCall listener);
  static native long engineInfer(
      long engine, byte[][] names, byte[][] dtypes, long[][] shapes, ByteBuffer[] data);
  static native void engineSave(long engine, byte[] path);
  static native void engineLoad(long engine, byte[] path);
  static native boolean engineResume(long engine, byte[] path);
  static native void engineLoadWeights(long engine, byte[] path);
  static native long engineParameters(long engine);
  static native byte[] engineDigest(long engine);
  static native byte[] engineProgress(long engine);
  static native void engineStop(long engine);
  static native long[] engineSteps(long engine);
  static native byte[] engineTraffic(long engine);
  static native void engineSeal(long engine);
  static native byte[] engineProof(long engine);
  static native void engineFree(long engine);

  static native long endOpen(byte[] url, byte[] settings);
  static native long busOpen(byte[] name);
  static native void endSend(
      long end, byte[][] names, byte[][] dtypes, long[][] shapes, ByteBuffer[] data, long step,
      long timeoutMs);
  static native long endReceive(long end, long timeoutMs, long[] step);
  static native void endClose(long end, long timeoutMs);
  static native byte[] endStats(long end);
  static native int endPort(long end);
  static native void endFree(long end);

  static native long tensorsEmpty(byte[] name, byte[] dtype, long[] shape);
  static native int tensorsCount(long tensors);
  static native byte[] tensorName(long tensors, int index);
  static native byte[] tensorDtype(long tensors, int index);
  static native long[] tensorShape(long tensors, int index);
  static native ByteBuffer tensorData(long tensors, int index);
  static native void tensorsFree(long tensors);

  /** How native code tells of a step; the answer says whether to go on. */
  interface StepCall {
    boolean onStep(byte[] report);
  }
}
