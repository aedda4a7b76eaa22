// Samples gathered into batches.
#pragma once

#include <cstdint>
#include <optional>

#include <harmonics/data/chained_producer.h>

namespace harmonics::inline in_data {

inline constexpr std::int64_t kMaxBatchSize = std::int64_t{1} << 24;

/// How long the first axis of the samples of a batch is: what sample_spec() says, or that of the
/// longest sample in it, shorter ones being filled up as their source does it (zeros).
enum class BatchLength : std::uint8_t { kWhole, kLongest };

/// Yields `batch_size` samples of its source at a time under a leading batch axis; the last batch
/// of an epoch holds what is left. Indexed and shuffled sources are read straight into the batch. A
/// size outside 1..kMaxBatchSize is an Error. With kLongest, sample_spec() is the longest sample
/// there can be.
class BatchProducer final : public ChainedProducer {
 public:
  BatchProducer(ProducerPtr source, std::int64_t batch_size,
                BatchLength length = BatchLength::kWhole);

  [[nodiscard]] bool batched() const override { return true; }
  [[nodiscard]] std::optional<std::int64_t> size() const override;
  [[nodiscard]] std::int64_t batch_size() const { return batch_size_; }

  void begin_epoch(const SampleOrder& order) override;
  [[nodiscard]] std::optional<Tensor> next() override;
  void skip(std::int64_t count) override;
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  std::int64_t batch_size_;
  BatchLength length_;
  ProducerPosition position_;
};

}  // namespace harmonics::inline in_data
