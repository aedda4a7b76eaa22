// ExactBackend: a stage in the reproducible arithmetic, in float32 (private to runtime).
//
// What it computes depends on graph, data, seed and settings alone: not on the place (the CPU and
// its vectors, an OpenCL device, a GPU), nor on threads, parts or processes.
// docs/formats/reproducible.md states the arithmetic. A graph with a layer that it does not know is
// refused by name when the stage is made. exact_backend.cc computes, exact_backend_weights.cc
// changes, saves and restores weights.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <harmonics/runtime/stage_backend.h>

#include "exact_place.h"
#include "program.h"

namespace harmonics::inline in_runtime {

class ExactBackend final : public StageBackend {
 public:
  /// The graph must be resolved.
  ExactBackend(HarmonicGraph graph, const RuntimeOptions& options,
               std::unique_ptr<ExactPlace> place);

  [[nodiscard]] const HarmonicGraph& graph() const override { return graph_; }
  [[nodiscard]] std::string place() const override { return place_->name(); }
  [[nodiscard]] PrecisionPolicy precision() const override { return PrecisionPolicy::kFull; }

  [[nodiscard]] NamedTensors infer(const NamedTensors& inputs) override;
  [[nodiscard]] NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) override;
  [[nodiscard]] NamedTensors forward(const MicroBatch& micro_batch, const NamedTensors& inputs,
                                     TapReport& report) override;
  [[nodiscard]] NamedTensors backward(const MicroBatch& micro_batch, const NamedTensors& gradients,
                                      double loss_scale) override;

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
  void set_gradients(const NamedTensors& values) override;
  void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) override;
  void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) override;

 private:
  using Arrays = std::vector<ExactArray>;

  /// What one layer leaves for its backward pass.
  struct LayerTrace {
    Arrays inputs;
    PlacedKept kept;
    ExactArray before_activation;
    PlacedKept activation_kept;
  };
  /// What a micro-batch leaves behind.
  struct Flight {
    MicroBatch micro_batch;
    Arrays values;  // by slot
    std::vector<LayerTrace> layers;
    std::vector<Arrays> use_gradients;  // by slot, then use number; while going back
  };
  enum class Mode { kInfer, kEvaluate, kTrain };

  struct Parameter {
    std::string name;
    ExactArray value;
    ExactArray gradient;   // undefined for what does not learn
    ExactArray pass;       // of one micro-batch, where others were added up before it
    bool reached = false;  // by a backward pass
    bool holds = false;    // the gradient of a micro-batch or more
    bool bias_or_norm = false;
  };

  void refuse_unknown() const;
  void add_parameters(std::uint64_t seed);
  void make_operations();

  Flight run(const MicroBatch& micro_batch, const NamedTensors& inputs, Mode mode);
  ExactArray compute(std::size_t layer, Flight& flight, LayerTrace& trace, Mode mode);
  void run_taps(const Flight& flight, TapReport& report) const;
  NamedTensors leave(const Flight& flight) const;

  void add_boundary_gradients(Flight& flight, const NamedTensors& gradients);
  void add_loss_gradients(Flight& flight, double loss_scale) const;
  void go_back(std::size_t layer, Flight& flight);
  [[nodiscard]] ExactArray gradient_of(std::size_t slot, const Flight& flight) const;
  [[nodiscard]] NamedTensors gradients_of_inputs(const Flight& flight) const;

  /// The tensors of parameters [first, first + count), or their gradients.
  [[nodiscard]] Arrays parameter_values(std::size_t first, std::size_t count) const;
  Arrays parameter_gradients(std::size_t first, std::size_t count);
  /// Adds what this pass gave to what earlier ones did: micro-batch by micro-batch, so that it does
  /// not matter who computed which of them.
  void add_up_passes();
  ExactArray slot_of(const std::string& parameter, std::string_view slot, const Shape& shape);
  [[nodiscard]] std::vector<std::string_view> optimizer_slots() const;

  HarmonicGraph graph_;
  std::unique_ptr<ExactPlace> place_;
  OptimizerOptions optimizer_;
  Program program_;
  std::vector<PlacedOperationPtr> layers_;
  std::vector<PlacedOperationPtr> activations_;           // null for none
  std::vector<PlacedOperationPtr> consumer_activations_;  // null for none
  std::vector<PlacedLossPtr> losses_;
  std::vector<Parameter> parameters_;
  std::map<std::string, ExactArray> optimizer_state_;  // "<parameter>.<slot>"
  std::unordered_map<std::uint32_t, Flight> flights_;
};

}  // namespace harmonics::inline in_runtime
