package io.harmonics;

import java.nio.file.Path;
import java.util.Map;
import java.util.function.Predicate;

/** What {@link CycleRuntime} and the schedulers have in common. One thread at a time. */
public abstract class Engine extends NativeObject {
  Engine(long handle) {
    super(handle, Native::engineFree);
  }

  static byte[] settings(Map<String, ?> settings) {
    return Native.utf8(Json.write(settings));
  }

  public void bindProducer(String name, Producer producer) {
    Native.engineBindProducer(handle(), Native.utf8(name), producer.handle());
  }

  public void bindConsumer(String name, MemoryConsumer consumer) {
    Native.engineBindConsumer(handle(), Native.utf8(name), consumer.handle());
  }

  /** One batch. */
  public Report step() {
    return new Report(Native.text(Native.engineStep(handle())));
  }

  /** {@code epochs} passes over the data. */
  public Report fit(long epochs) {
    return fit(epochs, Map.of(), null);
  }

  /**
   * The same with options ({@code checkpoint}, {@code checkpoint_every}, {@code metrics}); {@code
   * goOn}, if given, is told of every step, and ends the run by answering false.
   */
  public Report fit(long epochs, Map<String, ?> options, Predicate<Report> goOn) {
    Native.StepCall call =
        goOn == null ? null : report -> goOn.test(new Report(Native.text(report)));
    return new Report(Native.text(Native.engineFit(handle(), epochs, settings(options), call)));
  }

  /** The consumers' outputs; inputs have a leading batch axis and are used in place. */
  public NamedTensors infer(Map<String, Tensor> inputs) {
    Arguments all = new Arguments(inputs);
    return new NamedTensors(
        Native.engineInfer(handle(), all.names(), all.dtypes(), all.shapes(), all.data()));
  }

  public void saveCheckpoint(Path path) {
    Native.engineSave(handle(), Native.utf8(path.toString()));
  }

  public void loadCheckpoint(Path path) {
    Native.engineLoad(handle(), Native.utf8(path.toString()));
  }

  /**
   * Goes on from the newest checkpoint that all parts of the run have; false at the beginning. All
   * parts call it before their first step, with what {@code fit} was told as {@code checkpoint}.
   */
  public boolean resume(Path path) {
    return Native.engineResume(handle(), Native.utf8(path.toString()));
  }

  /** Start weights from a safetensors file. */
  public void loadWeights(Path path) {
    Native.engineLoadWeights(handle(), Native.utf8(path.toString()));
  }

  /**
   * Ends {@link #fit} after the step at hand, and every wait on ends that this engine took over at
   * once, with a {@link HarmonicsException} whose code is {@code cancelled}. Another thread may
   * call it, as long as this is not closed.
   */
  public void stop() {
    Native.engineStop(handle());
  }

  /**
   * The number, since the run began, of the first step that {@link #fit} did; 0 before. Another
   * thread may call it, as long as this is not closed.
   */
  public long firstStep() {
    return Native.engineSteps(handle())[0];
  }

  /** The same of the last step so far. */
  public long lastStep() {
    return Native.engineSteps(handle())[1];
  }

  /**
   * What went over the ends that this engine took over: {@code bytes_sent}, {@code
   * socket_payload_sent} …, and under {@code ends} how many there are of which kind.
   */
  public Report traffic() {
    return new Report(Native.text(Native.engineTraffic(handle())));
  }

  /** Ends a secure run: its chain is whole, and no step may follow. Does nothing otherwise. */
  public void seal() {
    Native.engineSeal(handle());
  }

  /**
   * What the parts here signed last, a line each, which {@code harmonics verify --line} looks for;
   * empty in a run that is not secure.
   */
  public String proof() {
    return Native.text(Native.engineProof(handle()));
  }

  /** A copy of all parameters and buffers. */
  public NamedTensors parameters() {
    return new NamedTensors(Native.engineParameters(handle()));
  }

  /** SHA-256 over all parameters: equal exactly when the weights are. */
  public String weightsDigest() {
    return Native.text(Native.engineDigest(handle()));
  }

  /** Epochs done, and batches of the epoch under way. */
  public Report progress() {
    return new Report(Native.text(Native.engineProgress(handle())));
  }
}
