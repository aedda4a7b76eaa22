// Some of the rows of a source, and the split into train and test.
#pragma once

#include <cstdint>
#include <vector>

#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

/// The given rows of an indexed source, in that order; a row may occur more than once. 8 bytes a
/// row. A row that the source does not have is an Error.
class SliceProducer final : public IndexedProducer {
 public:
  SliceProducer(IndexedProducerPtr source, std::vector<std::int64_t> rows);

  [[nodiscard]] TensorSpec sample_spec() const override { return source_->sample_spec(); }
  [[nodiscard]] std::int64_t row_count() const override { return std::ssize(rows_); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;
  [[nodiscard]] std::vector<std::int64_t> row_lengths(std::span<const std::int64_t> rows) override;

  /// The rows of the source.
  [[nodiscard]] const std::vector<std::int64_t>& rows() const { return rows_; }

 private:
  [[nodiscard]] std::vector<std::int64_t> of_source(std::span<const std::int64_t> rows) const;

  IndexedProducerPtr source_;
  std::vector<std::int64_t> rows_;
};

/// Two parts of one source; together they have every row once.
struct Split {
  std::shared_ptr<SliceProducer> train;
  std::shared_ptr<SliceProducer> test;
};

/// Shuffles the row numbers (Fisher-Yates, from `seed` alone); the last round(fraction * rows) are
/// the test part, the others the train part, both in shuffled order. Sources of equal length are
/// split alike. A fraction outside [0, 1) is an Error.
[[nodiscard]] Split train_test_split(const IndexedProducerPtr& source, double fraction = 0.2,
                                     std::uint64_t seed = 0);

}  // namespace harmonics::inline in_data
