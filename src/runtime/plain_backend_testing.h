// For tests: a StageBackend without libtorch, so that ThreadSanitizer can look into whoever drives
// stages.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include <harmonics/runtime/stage_backend.h>

#include "plain_numbers_testing.h"

namespace harmonics::inline in_runtime {

/// Linear layers, relu and cross entropy in float32, one after another in the calling thread;
/// whatever the options say, it learns by plain SGD. A graph with something else is an Error
/// (kUnimplemented) that names it. Start weights, micro-batches and boundaries are those of a real
/// backend, so that parts, replicas and processes must learn what one process learns, bit for bit.
class PlainBackend final : public StageBackend {
 public:
  PlainBackend(HarmonicGraph graph, const RuntimeOptions& options);

  [[nodiscard]] const HarmonicGraph& graph() const override { return graph_; }
  [[nodiscard]] std::string place() const override { return "cpu"; }
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

  [[nodiscard]] NamedTensors parameters() const override;
  [[nodiscard]] NamedTensors optimizer_state() const override { return {}; }
  [[nodiscard]] NamedTensors gradients() const override;
  void set_parameters(const NamedTensors& values) override;
  void set_optimizer_state(const NamedTensors&, std::int64_t) override {}
  void set_learning(const OptimizerOptions&, std::uint64_t) override {}
  void set_gradients(const NamedTensors& values) override;
  void listen_for_gradients(std::uint32_t last_micro_batch, GradientListener listener) override;

 private:
  struct Flight {
    std::map<std::string, Rows, std::less<>> values;
    std::map<std::string, Rows, std::less<>> slopes;  ///< Of the losses, by prediction.
    std::int64_t batch_samples = 0;
  };

  [[nodiscard]] Flight run(const NamedTensors& inputs) const;
  void run_taps(const NamedTensors& inputs, Flight& flight, TapReport& report) const;
  [[nodiscard]] NamedTensors leave(const Flight& flight) const;
  [[nodiscard]] Rows step_back(const LayerNode& layer, const Rows& input, const Rows& output,
                               Rows gradient);

  HarmonicGraph graph_;
  NamedTensors parameters_;
  NamedTensors gradients_;
  GradientListener listener_;
  std::uint32_t listened_micro_batch_ = 0;
  std::unordered_map<std::uint32_t, Flight> flights_;
};

}  // namespace harmonics::inline in_runtime
