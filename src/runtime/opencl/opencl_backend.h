// OpenClBackend: a stage on an OpenCL device, in float32 (private to runtime).
//
// Tensors stay on the device from the first layer to the last; what crosses to another part passes
// through main memory. Layers, activations and losses come from opencl_operation.h; what is missing
// there runs on the CPU, with one warning per stage that names it. opencl_backend.cc computes,
// opencl_backend_weights.cc changes, saves and restores weights.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <harmonics/runtime/stage_backend.h>

#include "opencl_operation.h"
#include "program.h"

namespace harmonics::inline in_runtime {

class OpenClBackend final : public StageBackend {
 public:
  /// `device` is a number of list_opencl_devices(); the graph must be resolved and float32.
  OpenClBackend(HarmonicGraph graph, const RuntimeOptions& options, std::size_t device);

  [[nodiscard]] const HarmonicGraph& graph() const override { return graph_; }
  [[nodiscard]] std::string place() const override;
  [[nodiscard]] PrecisionPolicy precision() const override { return PrecisionPolicy::kFull; }
  [[nodiscard]] std::vector<std::string> fallbacks() const override;

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

  [[nodiscard]] NamedTensors parameters() const override;
  [[nodiscard]] NamedTensors optimizer_state() const override;
  [[nodiscard]] NamedTensors gradients() const override;
  void set_parameters(const NamedTensors& values) override;
  void set_gradients(const NamedTensors& values) override;
  void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) override;
  void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) override;

 private:
  using DeviceTensors = std::vector<DeviceTensor>;

  /// What one layer leaves for its backward pass.
  struct LayerTrace {
    DeviceTensors inputs;
    KeptTensors kept;
    DeviceTensor before_activation;
    KeptTensors activation_kept;
  };
  /// What a micro-batch leaves behind.
  struct Flight {
    MicroBatch micro_batch;
    DeviceTensors values;  // by slot
    std::vector<LayerTrace> layers;
    std::vector<DeviceLosses> losses;          // by tap
    std::vector<DeviceTensors> use_gradients;  // by slot, then use number; while going back
  };
  enum class Mode { kInfer, kEvaluate, kTrain };

  struct Parameter {
    std::string name;
    DeviceTensor value;
    DeviceTensor gradient;  // undefined for what does not learn
    bool reached = false;   // by a backward pass
    bool bias_or_norm = false;
  };

  void add_parameters(std::uint64_t seed);
  void make_operations();
  DeviceOperationPtr make_layer(std::size_t index);
  DeviceOperationPtr make_activation(const std::string& name, const std::string& owner);
  DeviceLossPtr make_loss(std::size_t tap);
  void note_fallback(const std::string& operation, const std::string& user);
  void warn_of_fallbacks() const;

  Flight run(const MicroBatch& micro_batch, const NamedTensors& inputs, Mode mode);
  DeviceTensor enter(std::size_t slot, const Tensor& given);
  DeviceTensor compute(std::size_t layer, Flight& flight, LayerTrace& trace, Mode mode);
  void run_taps(Flight& flight, TapReport& report);
  NamedTensors leave(const Flight& flight);

  void add_boundary_gradients(Flight& flight, const NamedTensors& gradients);
  void add_loss_gradients(Flight& flight, double loss_scale);
  void go_back(std::size_t layer, Flight& flight);
  DeviceTensor gradient_of(std::size_t slot, const Flight& flight);
  NamedTensors gradients_of_inputs(const Flight& flight);

  /// The tensors of parameters [first, first + count), or their gradients.
  DeviceTensors parameter_values(std::size_t first, std::size_t count) const;
  DeviceTensors parameter_gradients(std::size_t first, std::size_t count);
  DeviceTensor& slot_of(const std::string& parameter, std::string_view slot, const Shape& shape);
  [[nodiscard]] std::vector<std::string_view> optimizer_slots() const;

  HarmonicGraph graph_;
  std::size_t device_;
  OptimizerOptions optimizer_;
  Program program_;
  std::vector<bool> is_target_;  // by slot: some tap compares with it
  // Shared state of the device; const calls copy from it.
  std::unique_ptr<OpenClQueue> queue_;
  std::vector<DeviceOperationPtr> layers_;
  std::vector<DeviceOperationPtr> activations_;           // null for none
  std::vector<DeviceOperationPtr> consumer_activations_;  // null for none
  std::vector<DeviceLossPtr> losses_;
  std::map<std::string, std::vector<std::string>> fallbacks_;  // operation, and who uses it
  std::vector<Parameter> parameters_;
  std::map<std::string, DeviceTensor> optimizer_state_;  // "<parameter>.<slot>"
  std::unordered_map<std::uint32_t, Flight> flights_;
};

}  // namespace harmonics::inline in_runtime
