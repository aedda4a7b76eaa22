// StageBackend: what computes a stage. One implementation per kind of device.
//
// Stage hands every call through to one of these; the contract suite (backend_contract_test.cc)
// holds all of them to the answers of the CPU. A new backend implements this interface in files of
// its own, gets a line in make_stage_backend (stage.cc) and a line in that suite.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

/// Holds one graph, its weights and optimiser state on its device. One thread at a time; several
/// backends may compute in several threads. The calls mean what Stage says of those of the same
/// names; tensors go in from main memory or from the device and come out where the next reader
/// takes them.
class StageBackend {
 public:
  virtual ~StageBackend() = default;

  [[nodiscard]] virtual const HarmonicGraph& graph() const = 0;
  /// "cpu", "cuda:0", "opencl:0": where it computes, for messages.
  [[nodiscard]] virtual std::string place() const = 0;
  [[nodiscard]] virtual PrecisionPolicy precision() const = 0;
  /// Operations that this backend lacks and runs on the CPU, such as "attention"; in alphabetical
  /// order, each once.
  [[nodiscard]] virtual std::vector<std::string> fallbacks() const { return {}; }

  [[nodiscard]] virtual NamedTensors infer(const NamedTensors& inputs) = 0;
  [[nodiscard]] virtual NamedTensors evaluate(const NamedTensors& inputs, TapReport& report) = 0;
  [[nodiscard]] virtual NamedTensors forward(const MicroBatch& micro_batch,
                                             const NamedTensors& inputs, TapReport& report) = 0;
  [[nodiscard]] virtual NamedTensors backward(const MicroBatch& micro_batch,
                                              const NamedTensors& gradients, double loss_scale) = 0;

  [[nodiscard]] virtual std::map<std::string, double> gradient_square_sums() const = 0;
  virtual void update(const Update& update) = 0;
  virtual void reset() = 0;
  [[nodiscard]] virtual std::string first_non_finite() const = 0;

  [[nodiscard]] virtual NamedTensors parameters() const = 0;
  [[nodiscard]] virtual NamedTensors optimizer_state() const = 0;
  [[nodiscard]] virtual NamedTensors gradients() const = 0;
  virtual void set_parameters(const NamedTensors& values) = 0;
  virtual void set_optimizer_state(const NamedTensors& values, std::int64_t updates_made) = 0;
  virtual void set_learning(const OptimizerOptions& optimizer, std::uint64_t seed) = 0;
  /// A backend that cannot take gradients from elsewhere leaves this as it is: an Error
  /// (kUnimplemented) that says so.
  virtual void set_gradients(const NamedTensors& values);
  /// As they stand, these go through all parameters.
  [[nodiscard]] virtual NamedTensors buffers() const;
  virtual void set_buffers(const NamedTensors& values);
};

}  // namespace harmonics::inline in_runtime
