// CycleRuntime: one graph, its weights and its data, in one object.
#pragma once

#include <memory>
#include <string>

#include <harmonics/base/owned_state.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/options.h>
#include <harmonics/schedule/learner.h>

namespace harmonics::inline in_schedule {

/// Computes a graph and, when it has a training tap, learns. One thread.
///
///     CycleRuntime runtime(load_harp("digits.harp"));
///     runtime.bindProducer("image", images);
///     runtime.bindProducer("label", labels);
///     runtime.fit(30);
///     runtime.save_checkpoint("digits.safetensors");
///
/// A graph whose producers have no declared shape is completed from the data that is bound; until
/// then everything but binding is an Error that names the producer.
///
/// With `options.secure` every batch is signed: the data that enters, the tensors that leave the
/// graph, the weights.
class CycleRuntime : public Learner {
 public:
  explicit CycleRuntime(HarmonicGraph graph, RuntimeOptions options = {});
  ~CycleRuntime() override;
  CycleRuntime(CycleRuntime&&) noexcept;
  CycleRuntime& operator=(CycleRuntime&&) noexcept;

  void bindProducer(const std::string& name, ProducerPtr producer) override;
  void bindConsumer(const std::string& name, ConsumerPtr consumer) override;
  [[nodiscard]] std::string proof() const override;

  [[nodiscard]] const HarmonicGraph& graph() const;
  [[nodiscard]] Trainer& trainer() const override;
  /// For schedulers and tests.
  [[nodiscard]] StageRow& row() { return trainer().row(); }

 private:
  struct State;
  OwnedState<State> state_;
};

}  // namespace harmonics::inline in_schedule
