// What producers over another producer have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

/// Passes on what its source yields; a subclass changes the tensors, their number or their order.
/// It shares the ownership of the source and is the only one to read it in sequence. Making one
/// takes the source back to the start of the epoch it is in.
class ChainedProducer : public Producer {
 public:
  [[nodiscard]] TensorSpec sample_spec() const override { return source_->sample_spec(); }
  [[nodiscard]] bool batched() const override { return source_->batched(); }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return source_->size(); }
  [[nodiscard]] std::optional<std::int64_t> sample_count() const override {
    return source_->sample_count();
  }
  void begin_epoch(const SampleOrder& order) override { source_->begin_epoch(order); }
  void skip(std::int64_t count) override { source_->skip(count); }
  [[nodiscard]] ProducerPosition position() const override { return source_->position(); }

 protected:
  /// No source is an Error that names `producer`, the subclass.
  ChainedProducer(ProducerPtr source, std::string_view producer);
  /// Throws an Error when the source yields batches where `producer` works on samples.
  void require_samples(std::string_view producer) const;

  [[nodiscard]] Producer& source() const { return *source_; }
  [[nodiscard]] const ProducerPtr& source_pointer() const { return source_; }
  /// The source's next tensor after `change`, which gets the tensor and its number in the epoch.
  /// When `change` throws, the source goes back to before that tensor.
  [[nodiscard]] std::optional<Tensor> next_changed(
      const std::function<Tensor(const Tensor&, std::int64_t)>& change);

 private:
  ProducerPtr source_;
};

}  // namespace harmonics::inline in_data
