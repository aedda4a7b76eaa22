// Samples gathered into batches.
#pragma once

#include <cstdint>
#include <optional>

#include <harmonics/data/chained_producer.h>

namespace harmonics::inline in_data {

inline constexpr std::int64_t kMaxBatchSize = std::int64_t{1} << 24;

/// Yields `batch_size` samples of its source at a time under a leading batch axis; the last batch
/// of an epoch holds what is left. Indexed and shuffled sources are read straight into the batch. A
/// size outside 1..kMaxBatchSize is an Error.
class BatchProducer final : public ChainedProducer {
 public:
  BatchProducer(ProducerPtr source, std::int64_t batch_size);

  [[nodiscard]] bool batched() const override { return true; }
  [[nodiscard]] std::optional<std::int64_t> size() const override;
  [[nodiscard]] std::int64_t batch_size() const { return batch_size_; }

  void begin_epoch(const SampleOrder& order) override;
  [[nodiscard]] std::optional<Tensor> next() override;
  void skip(std::int64_t count) override;
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  std::int64_t batch_size_;
  ProducerPosition position_;
};

}  // namespace harmonics::inline in_data
