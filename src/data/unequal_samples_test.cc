// Samples of unequal length: what sources say of them, and batches as long as their longest.
#include <gtest/gtest.h>

#include <numeric>

#include <harmonics/data/batch_producer.h>
#include <harmonics/data/cache_producer.h>
#include <harmonics/data/label_producer.h>
#include <harmonics/data/prefetch_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>

#include <error_testing.h>

namespace harmonics::inline in_data {
namespace {

/// Row r holds r + 1 once, twice … up to `lengths[r]` times, then zeros; two columns each.
class Texts final : public IndexedProducer {
 public:
  explicit Texts(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}

  [[nodiscard]] TensorSpec sample_spec() const override { return {{8, 2}, DType::kInt64}; }
  [[nodiscard]] std::int64_t row_count() const override { return std::ssize(lengths_); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override {
    check_read(rows, out);
    auto* values = reinterpret_cast<std::int64_t*>(out.data());
    for (const std::int64_t row : rows) {
      for (std::int64_t i = 0; i < 16; ++i) *values++ = i / 2 < lengths_[row] ? row + 1 : 0;
    }
  }
  [[nodiscard]] std::vector<std::int64_t> row_lengths(std::span<const std::int64_t> rows) override {
    std::vector<std::int64_t> found;
    for (const std::int64_t row : rows) found.push_back(lengths_.at(row));
    return found;
  }

 private:
  const std::vector<std::int64_t> lengths_;
};

const std::vector<std::int64_t> kLengths = {3, 1, 5, 8, 2, 2, 4};

std::vector<std::int64_t> values_of(const Tensor& tensor) {
  const auto values = tensor.values<std::int64_t>();
  return {values.begin(), values.end()};
}

TEST(UnequalSamples, ABatchIsAsLongAsItsLongestSample) {
  BatchProducer batches(std::make_shared<Texts>(kLengths), 3, BatchLength::kLongest);
  const Tensor first = batches.next().value();
  EXPECT_EQ(first.shape(), Shape({3, 5, 2}));
  EXPECT_EQ(values_of(first.slice(0, 1)),
            std::vector<std::int64_t>({1, 1, 1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(values_of(first.slice(1, 2)),
            std::vector<std::int64_t>({2, 2, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batches.next()->shape(), Shape({3, 8, 2}));
  const Tensor last = batches.next().value();
  EXPECT_EQ(last.shape(), Shape({1, 4, 2}));
  EXPECT_EQ(values_of(last), std::vector<std::int64_t>(8, 7));
  EXPECT_FALSE(batches.next().has_value());
}

TEST(UnequalSamples, WithoutBeingAskedABatchIsWhole) {
  BatchProducer batches(std::make_shared<Texts>(kLengths), 3);
  EXPECT_EQ(batches.next()->shape(), Shape({3, 8, 2}));
  EXPECT_EQ(batches.sample_spec().shape, Shape({8, 2}));
}

// A position is the same place again, and chains of producers lose no length.
TEST(UnequalSamples, ProducersOverOthersKnowTheLengths) {
  const auto texts = std::make_shared<Texts>(kLengths);
  const auto sliced =
      std::make_shared<SliceProducer>(texts, std::vector<std::int64_t>{6, 1, 4, 0, 5});
  const auto cached =
      std::make_shared<CacheProducer>(std::make_shared<LabelProducer>(sliced, 100, "words"));
  const std::vector<std::int64_t> rows = {0, 2};
  EXPECT_EQ(cached->row_lengths(rows), std::vector<std::int64_t>({4, 2}));
  BatchProducer batches(std::make_shared<ShuffleProducer>(cached), 2, BatchLength::kLongest);
  batches.begin_epoch({7, 1});
  std::int64_t longest_seen = 0;
  std::vector<Tensor> seen;
  while (const auto batch = batches.next()) {
    const auto values = batch->values<std::int64_t>();
    // Its last position is filled by some sample, else it would be shorter.
    std::int64_t filled = 0;
    for (std::int64_t row = 0; row < batch->shape()[0]; ++row) {
      filled += values[(row + 1) * batch->shape()[1] * 2 - 1] != 0 ? 1 : 0;
    }
    EXPECT_GT(filled, 0);
    longest_seen = std::max(longest_seen, batch->shape()[1]);
    seen.push_back(*batch);
  }
  EXPECT_EQ(longest_seen, 4);
  ASSERT_EQ(seen.size(), 3U);
  batches.seek({{7, 1}, 1});
  EXPECT_EQ(values_of(batches.next().value()), values_of(seen[1]));
}

TEST(UnequalSamples, ALengthBeyondTheSampleIsAnError) {
  BatchProducer batches(std::make_shared<Texts>(std::vector<std::int64_t>{9}), 1,
                        BatchLength::kLongest);
  expect_error(ErrorCode::kInternal, "a sample of length 9 where 8 is the most",
               [&] { (void)batches.next(); });
}

}  // namespace
}  // namespace harmonics::inline in_data
