// TorchBackend: a stage on the CPU or a CUDA device, computed by libtorch (private to runtime).
//
// torch_backend.cc computes; torch_backend_weights.cc changes, saves and restores weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <harmonics/runtime/stage_backend.h>

#include "optimizer.h"
#include "program.h"

namespace harmonics::inline in_runtime {

using Tensors = std::vector<at::Tensor>;

/// What a micro-batch leaves behind until its backward pass.
struct Flight {
  Tensors values;                // by slot
  std::vector<Tensors> aliases;  // by slot, then use number
  Tensors losses;                // by tap: sum over samples
  std::int64_t batch_samples = 0;
};

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
  [[nodiscard]] PrecisionPolicy precision() const override { return precision_; }

  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs) override;
  [[nodiscard]] NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) override;
  [[nodiscard]] NamedTensors forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                     TapReport& report) override;
  [[nodiscard]] NamedTensors backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                      double loss_scale) override;

  [[nodiscard]] std::map<std::string, double> gradient_square_sums() const override;
  void update(const Update& update) override;
  void reset() override;
  [[nodiscard]] std::string first_non_finite() const override;

  [[nodiscard]] NamedTensors parameters() const override;
  [[nodiscard]] NamedTensors optimizer_state() const override;
  [[nodiscard]] NamedTensors gradients() const override;
  void set_parameters(const NamedTensors& values) override;
  void load_parameters(const ParameterReader& read) override;
  void set_gradients(const NamedTensors& values) override;
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
  Flight run(const MicroBatch& micro_batch, Collected collected, Mode mode);
  /// Inference on the CPU: all layers over the producers in `values`.
  void infer_layers(Tensors& values, const AxisValues& axes);
  void drop(const std::vector<std::uint32_t>& slots, Tensors& values) const;
  /// The layers [first, end), each letting go of what nobody reads later.
  void infer_steps(std::size_t first, std::size_t end, Tensors& values, const AxisValues& axes);
  /// The same for a run of layers, `chunk` samples at a time.
  void infer_run(const SampleRun& run, std::int64_t chunk, Tensors& values, const AxisValues& axes);
  void share_parameters();
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
  void run_taps(Flight& flight, Mode mode, TapReport& report) const;
  /// What has a gradient, under the name of its owner.
  [[nodiscard]] std::vector<Learnt> learnt() const;
  at::Tensor leaving_weight(const ConsumerStep& step, const at::Tensor& value);
  NamedTensors leave(const Flight& flight, Mode mode);

  HarmonicGraph graph_;
  Device device_;
  PrecisionPolicy precision_;
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
  /// By the place of an owner: the places of all its uses, in graph order.
  std::map<std::size_t, std::vector<std::size_t>> shared_;
  std::unordered_map<std::uint32_t, Flight> flights_;
  std::map<std::size_t, at::Tensor> held_;  // what other parts sent last, by slot
  std::set<std::string> sent_;              // boundaries whose other end has the parameter
  /// By layer, what it keeps for inference (LayerCall::kept); empty while nothing has been
  /// inferred.
  std::vector<Tensors> kept_;
};

}  // namespace harmonics::inline in_runtime
