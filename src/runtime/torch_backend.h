// TorchBackend: a stage on the CPU or a CUDA device, computed by libtorch (private to runtime).
//
// torch_backend.cc computes; torch_backend_weights.cc changes, saves and restores weights;
// torch/torch_backend_recorded.cc launches on a GPU what it has recorded before.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <harmonics/runtime/stage_backend.h>

#include "optimizer.h"
#include "program.h"
#include "torch/gpu_copies.h"
#include "torch/recorded_flight.h"
#include "torch/short_copies.h"

namespace torch::autograd {
struct Node;
}

namespace harmonics::inline in_runtime {

/// What a micro-batch brings.
struct Collected {
  Tensors values;   // by slot; only producers so far
  AxisValues axes;  // what the batch gives to the graph's named axes
};

enum class Mode { kInfer, kEvaluate, kTrain };

class TorchBackend final : public StageBackend {
 public:
  /// `device` is where it computes; the graph must be resolved.
  TorchBackend(HarmonicGraph graph, const RuntimeOptions& options, Device device);

  [[nodiscard]] const HarmonicGraph& graph() const override { return graph_; }
  [[nodiscard]] std::string place() const override;
  [[nodiscard]] Device device() const override { return device_; }
  [[nodiscard]] PrecisionPolicy precision() const override { return precision_; }

  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs) override;
  [[nodiscard]] NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) override;
  [[nodiscard]] NamedTensors forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                     TapReport& report) override;
  [[nodiscard]] std::map<std::uint32_t, TapReport> late_taps() override;
  [[nodiscard]] NamedTensors backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                      double loss_scale) override;
  /// Drops what forward() has kept of a micro-batch; nothing where it keeps nothing.
  void forget(const MicroBatch& micro_batch);
  /// forward() of a micro-batch that was forgotten: running statistics, which have had it, stay.
  void forward_again(const MicroBatch& micro_batch, const NamedTensors& inputs);

  [[nodiscard]] std::map<std::string, double> gradient_square_sums() const override;
  void update(const Update& update) override;
  void reset() override;
  [[nodiscard]] std::string first_non_finite() override;
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> layer_values(
      std::uint32_t micro_batch) override;

  [[nodiscard]] NamedTensors parameters() const override;
  [[nodiscard]] NamedTensors optimizer_state() const override;
  [[nodiscard]] NamedTensors gradients() const override;
  void set_parameters(const NamedTensors& values) override;
  void load_parameters(const ParameterReader& read) override;
  void set_gradients(const NamedTensors& values) override;
  void take_gradients(const NamedTensors& values) override;
  void listen_for_gradients(std::uint32_t last_micro_batch, GradientListener listener) override;
  [[nodiscard]] NamedTensors buffers() const override;
  void set_buffers(const NamedTensors& values) override;
  void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) override;
  void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) override;

 private:
  at::Tensor enter(const ProducerNode& node, const Tensor& given) const;
  Collected collect(const NamedTensors& inputs, bool with_targets) const;
  /// The parameters as the layers of one pass see them, where that is not parameters_: in training,
  /// each use of a shared one is an alias, so that their gradients are added in graph order.
  Tensors parameters_for(Mode mode) const;
  /// Has to be called before parameters change: layers work out anew what they keep of them.
  void forget_kept() { kept_.clear(); }
  /// `parameters`: those of the layer, then those of its activation.
  at::Tensor compute(const LayerStep& step, LayerCall call,
                     std::span<const at::Tensor> parameters) const;
  void check_output(const LayerStep& step, const at::Tensor& value, const AxisValues& axes) const;
  void add_leaves(Flight& flight) const;
  /// `draws` is where a pass that is recorded leaves what it takes from chance.
  Flight run(const MicroBatch& micro_batch, Collected collected, Mode mode,
             std::vector<ChanceDraw>* draws = nullptr);
  /// Inference on the CPU: all layers over the producers in `values`.
  void infer_layers(Tensors& values, const AxisValues& axes);
  void drop(const std::vector<std::uint32_t>& slots, Tensors& values) const;
  /// The layers [first, end), each letting go of what nobody reads later.
  void infer_steps(std::size_t first, std::size_t end, Tensors& values, const AxisValues& axes);
  /// The same for a run of layers, `chunk` samples at a time.
  void infer_run(const SampleRun& run, std::int64_t chunk, Tensors& values, const AxisValues& axes);
  void share_parameters();
  /// Which parameters are kept in 16 bits too.
  void choose_shorts();
  /// Those of a layer whose parameters are these; none where one of them came from another part.
  [[nodiscard]] Tensors shorts_of(const LayerStep& step, std::span<const at::Tensor> own) const;
  /// Draws the start values of what nobody has set; whoever loads weights first saves that.
  void draw() const;
  /// Makes parameters that lie in a mapped file the backend's own, to be changed.
  void take_over();
  void set_parameter(std::size_t place, at::Tensor value);
  void refuse_ties_away() const;
  /// Keeps the parameters that other parts send, and puts those in place that still hold.
  void hold_weights(const NamedTensors& inputs, Collected& collected);
  /// The layer's parameters, of which one may be its last input.
  static Tensors own_parameters(const LayerStep& step, std::span<const at::Tensor> all,
                                Tensors& inputs);
  /// Other parts have these no longer as they are.
  void forget_sent() { sent_.clear(); }
  /// False where a tied parameter stands again.
  [[nodiscard]] bool owns(std::size_t place) const { return !names_[place].empty(); }
  /// Launches what the taps compute; read_taps waits for it.
  void run_taps(Flight& flight, Mode mode) const;
  void read_taps(const Flight& flight, TapReport& report) const;
  /// What has a gradient, under the name of its owner.
  [[nodiscard]] std::vector<Learnt> learnt() const;
  /// From here on the listener hears of the gradients of this pass, if it waits for this one.
  void begin_listening(const MicroBatch& micro_batch);
  at::Tensor leaving_weight(const ConsumerStep& step, const at::Tensor& value);
  /// By consumer, on the device.
  Tensors leaving(const Flight& flight, Mode mode);
  /// The same where the next reader takes it; who only learns leaves all of it on the device.
  NamedTensors handed_on(const Tensors& leaving, bool only_learns = false) const;
  /// The gradient of a loss' sum.
  [[nodiscard]] double tap_gradient(std::size_t tap, const Flight& flight, double loss_scale) const;
  /// Walks back from `roots`; the gradients of what entered, by producer.
  Tensors walk_back(const Flight& flight, const Tensors& roots, const Tensors& root_gradients);
  [[nodiscard]] NamedTensors named_answers(const Tensors& answers) const;

  [[nodiscard]] std::span<const at::Tensor> entering(const Collected& collected) const;
  /// Whether passes of micro-batches of this shape have been recorded, or are now.
  RecordedFlight* recorded_for(const MicroBatch& micro_batch, const Collected& collected);
  void record_forward(RecordedFlight& made, const MicroBatch& micro_batch,
                      const Collected& collected);
  NamedTensors launch_forward(RecordedFlight& recorded, const MicroBatch& micro_batch,
                              const Collected& collected, TapReport& report);
  /// What read_taps says, once its forward pass has come so far.
  void hear_taps(RecordedFlight& recorded, TapReport& report) const;
  void record_backward(RecordedFlight& recorded);
  /// False where it cannot be recorded: then its forward pass has been computed again.
  bool has_backward(RecordedFlight& recorded);
  /// Computes a recorded forward pass again, piece by piece, for who needs what lies between.
  void compute_again(const RecordedFlight& recorded);
  /// What does not learn, as it is; undefined for the rest.
  [[nodiscard]] Tensors statistics() const;
  void put_back(const Tensors& statistics);
  /// What came back and what the losses weigh, into the memory that the recorded pass reads.
  void lay_down_gradients(RecordedFlight& recorded, const NamedTensors& gradients,
                          double loss_scale);
  NamedTensors launch_backward(RecordedFlight& recorded);
  /// From now on every pass is launched piece by piece.
  void stop_recording(std::string_view why);
  /// What leaves when a batch is only computed.
  Tensors inferred(Collected collected);
  /// The same as one launch; nothing where batches of this shape are not recorded.
  std::optional<Tensors> launch_inference(const Collected& collected);
  bool record_inference(RecordedInference& made, const Collected& collected);
  /// What was recorded reads memory of before.
  void forget_recorded();

  HarmonicGraph graph_;
  Device device_;
  PrecisionPolicy precision_;
  GpuCopies copies_;
  ShortCopies shorts_;  // on a GPU that computes in 16 bits
  Program program_;
  Optimizer optimizer_;
  /// In the order of layers and their parameters. A tied parameter stands at each of its uses: the
  /// same tensor, and a name only where it is owned (or, in a part without its owner, held first).
  std::vector<std::string> names_;
  Tensors parameters_;
  std::vector<bool> biases_and_norms_;  // by place
  /// By place: the layer's number and the parameter's within it.
  std::vector<std::pair<std::size_t, std::size_t>> origins_;
  mutable std::set<std::size_t> undrawn_;  // places whose memory holds nothing yet
  std::set<std::size_t> mapped_;           // places that must not be changed where they lie
  std::uint64_t seed_;
  bool maps_weights_;
  bool channels_last_;  // see ImageLayout
  /// By the place of an owner: the places of all its uses, in graph order.
  std::map<std::size_t, std::vector<std::size_t>> shared_;
  std::unordered_map<std::uint32_t, Flight> flights_;
  std::unique_ptr<PassRecorder> recorder_;  // null where passes cannot be recorded
  bool records_;                            // what has not been recorded yet
  bool set_is_open_ = false;                // of passes, until the step ends
  int recorded_sets_ = 0;
  bool rehearsing_ = false;  // the next time this pass comes it is recorded
  std::map<std::vector<std::int64_t>, RecordedFlight> recorded_;       // by number and shapes
  std::map<std::vector<std::int64_t>, RecordedInference> inferences_;  // by shapes
  bool records_inference_;
  std::map<std::uint32_t, RecordedFlight*> launched_;  // forward passes without their backward pass
  std::map<std::uint32_t, RecordedFlight*> untold_;    // those whose taps nobody has heard
  std::map<std::uint32_t, TapReport> heard_;           // of passes that are recorded no more
  Tensors gradient_sums_;                              // by place: what recorded passes add up
  std::map<std::size_t, at::Tensor> held_;             // what other parts sent last, by slot
  std::set<std::string> sent_;  // boundaries whose other end has the parameter
  /// By layer, what it keeps for inference (LayerCall::kept); empty while nothing has been
  /// inferred.
  std::vector<Tensors> kept_;
  GradientListener listener_;
  std::uint32_t listened_micro_batch_ = 0;
  bool listens_ = false;
  /// By place: what gathers the gradient of a parameter and tells the listener.
  std::vector<std::shared_ptr<torch::autograd::Node>> gatherers_;
};

/// What came back over a boundary. None, or another number of gradients, is an Error.
const Tensor& gradient_message(const ConsumerStep& step, const NamedTensors& gradients);
/// The slices of such a message, one per use in the receiving part.
void add_boundary_roots(const ConsumerStep& step, const Flight& flight, const at::Tensor& message,
                        Tensors& roots, Tensors& root_gradients);

}  // namespace harmonics::inline in_runtime
