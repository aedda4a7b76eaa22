// Stages that learn batch by batch, as plainly as can be. Real runs are conducted by schedule.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

/// The parts of a graph in their order, on one thread: every micro-batch forward through all of
/// them and back, then one update, clipped over all parts.
class PlainRow {
 public:
  PlainRow(const std::vector<HarmonicGraph>& parts, const std::vector<RuntimeOptions>& options)
      : options_(options.front()) {
    for (std::size_t i = 0; i < parts.size(); ++i) stages_.emplace_back(parts[i], options[i]);
  }

  /// What the taps of the batch said.
  TapReport train(const NamedTensors& batch) {
    const std::int64_t rows = batch.begin()->second.shape()[0];
    const int count = options_.micro_batches;
    TapReport report;
    for (std::int64_t i = 0, first = 0, last = 0; i < count; ++i, first = last) {
      last = first + rows / count + (i < rows % count ? 1 : 0);
      const MicroBatch micro_batch{static_cast<std::uint64_t>(updates_),
                                   static_cast<std::uint32_t>(i), first, rows};
      NamedTensors outputs, gradients;
      for (Stage& stage : stages_) {
        NamedTensors inputs;
        for (const ProducerNode& node : stage->graph().producers()) {
          const auto sent = outputs.find(node.name);
          inputs[node.name] =
              sent != outputs.end() ? sent->second : batch.at(node.name).slice(first, last);
        }
        outputs.merge(stage->forward(micro_batch, inputs, report));
      }
      for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
        gradients.merge((*stage)->backward(micro_batch, gradients));
      }
    }
    update();
    return report;
  }

  [[nodiscard]] NamedTensors parameters() const { return all(&StageBackend::parameters); }
  [[nodiscard]] NamedTensors optimizer_state() const { return all(&StageBackend::optimizer_state); }
  [[nodiscard]] std::vector<Stage>& stages() { return stages_; }

 private:
  void update() {
    double squares = 0;
    for (const Stage& stage : stages_) {
      for (const auto& [name, square] : stage->gradient_square_sums()) squares += square;
    }
    Update update{options_.optimizer.learning_rate, 1, updates_++};
    if (options_.clip_norm > 0 && std::sqrt(squares) > options_.clip_norm) {
      update.gradient_factor = options_.clip_norm / std::sqrt(squares);
    }
    for (Stage& stage : stages_) stage->update(update);
  }

  template <typename Ask>
  [[nodiscard]] NamedTensors all(Ask ask) const {
    NamedTensors found;
    for (const Stage& stage : stages_) found.merge(((*stage).*ask)());
    return found;
  }

  RuntimeOptions options_;
  std::vector<Stage> stages_;
  std::int64_t updates_ = 0;
};

}  // namespace harmonics::inline in_runtime
