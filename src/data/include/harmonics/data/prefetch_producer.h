// Reads ahead on a thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <harmonics/data/chained_producer.h>

namespace harmonics::inline in_data {

inline constexpr std::size_t kMaxPrefetchDepth = 1024;

/// Keeps up to `depth` tensors of its source ready, made by a thread of its own, which is the only
/// one to read the source in sequence while it runs. The thread starts with the first next() of an
/// epoch and is gone at its end, after begin_epoch, seek or skip, and in the destructor; none of
/// these waits for longer than the tensor that is being made. An error of the source comes out of
/// next() in the place of its tensor, and the next call tries again. A depth
/// outside 1..kMaxPrefetchDepth is an Error.
class PrefetchProducer final : public ChainedProducer {
 public:
  explicit PrefetchProducer(ProducerPtr source, std::size_t depth = 2);
  ~PrefetchProducer() override;

  // Asked of the source once: afterwards it belongs to the thread.
  [[nodiscard]] TensorSpec sample_spec() const override { return spec_; }
  [[nodiscard]] bool batched() const override { return batched_; }
  [[nodiscard]] std::optional<std::int64_t> size() const override { return size_; }
  [[nodiscard]] std::optional<std::int64_t> sample_count() const override { return sample_count_; }

  void begin_epoch(const SampleOrder& order) override;
  [[nodiscard]] std::optional<Tensor> next() override;
  void skip(std::int64_t count) override;
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  class Reader;
  const std::size_t depth_;
  const TensorSpec spec_;
  const bool batched_;
  const std::optional<std::int64_t> size_;
  const std::optional<std::int64_t> sample_count_;
  ProducerPosition position_;
  std::unique_ptr<Reader> reader_;  // while the thread runs
};

}  // namespace harmonics::inline in_data
