// What each producer over another one does beyond the contract: limits, refusals, errors on the
// way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <harmonics/base/channel.h>
#include <harmonics/base/log.h>
#include <harmonics/data/augment_producer.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/cache_producer.h>
#include <harmonics/data/map_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/prefetch_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>
#include <harmonics/data/synthetic_producer.h>

#include <error_testing.h>

namespace harmonics::inline in_data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<MemoryProducer> counting(std::int64_t rows, Shape sample = {1}) {
  Shape shape = {rows};
  shape.insert(shape.end(), sample.begin(), sample.end());
  Tensor data = Tensor::empty(shape);
  std::iota(data.mutable_values<float>().begin(), data.mutable_values<float>().end(), 0.0F);
  return std::make_shared<MemoryProducer>(data);
}

std::vector<float> flat(Producer& producer) {
  std::vector<float> values;
  while (const auto tensor = producer.next()) {
    values.insert(values.end(), tensor->values<float>().begin(), tensor->values<float>().end());
  }
  return values;
}

// Fails the first time it comes to sample 3, and counts the rows that were read.
class Flaky final : public IndexedProducer {
 public:
  explicit Flaky(IndexedProducerPtr source) : source_(std::move(source)) {}
  [[nodiscard]] TensorSpec sample_spec() const override { return source_->sample_spec(); }
  [[nodiscard]] std::int64_t row_count() const override { return source_->row_count(); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override {
    if (std::ranges::count(rows, 3) != 0 && !failed_.exchange(true)) {
      fail(ErrorCode::kUnavailable, "the disk is away");
    }
    rows_read += std::ssize(rows);
    source_->read(rows, out);
  }
  std::atomic<std::int64_t> rows_read = 0;

 private:
  IndexedProducerPtr source_;
  std::atomic<bool> failed_ = false;
};

ProducerPtr identity(const ProducerPtr& source) {
  return std::make_shared<MapProducer>(
      source, [](const Tensor& in) { return in; }, source->sample_spec());
}

TEST(ChainedProducer, AnErrorOfTheSourceSurfacesOnceAndLosesNothing) {
  using Make = std::function<ProducerPtr(IndexedProducerPtr)>;
  const std::vector<Make> makes = {
      [](auto source) { return std::make_shared<BatchProducer>(source, 4); },
      [](auto source) { return std::make_shared<BatchProducer>(identity(source), 4); },
      [](auto source) { return std::make_shared<ShuffleProducer>(source, 1); },
      [](auto source) { return std::make_shared<ShuffleProducer>(identity(source), 1, 4); },
      [](auto source) { return std::make_shared<PrefetchProducer>(source, 2); },
      [](auto source) { return std::make_shared<PrefetchProducer>(identity(source), 64); },
      [](auto source) { return std::make_shared<CacheProducer>(source); },
      [](auto source) { return std::make_shared<AugmentProducer>(source, AugmentOptions{}); },
  };
  for (std::size_t i = 0; i < makes.size(); ++i) {
    const std::vector<float> expected = flat(*makes[i](counting(10)));
    const ProducerPtr producer = makes[i](std::make_shared<Flaky>(counting(10)));
    std::vector<float> values;
    int errors = 0;
    while (true) {
      const ProducerPosition before = producer->position();
      try {
        const auto tensor = producer->next();
        if (!tensor) break;
        values.insert(values.end(), tensor->values<float>().begin(), tensor->values<float>().end());
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "the disk is away");
        EXPECT_EQ(producer->position(), before);
        ++errors;
      }
    }
    EXPECT_EQ(errors, 1) << i;
    EXPECT_EQ(values, expected) << i;
  }
}

TEST(BatchProducer, KeepsTheLastPartialBatch) {
  BatchProducer batches(counting(5), 2);
  EXPECT_EQ(batches.size(), 3);
  EXPECT_EQ(batches.sample_count(), 5);
  EXPECT_EQ(batches.next()->shape(), (Shape{2, 1}));
  EXPECT_EQ(batches.next()->shape(), (Shape{2, 1}));
  const auto last = batches.next();
  EXPECT_EQ(last->shape(), (Shape{1, 1}));
  EXPECT_EQ(last->values<float>()[0], 4);
}

TEST(BatchProducer, SizeLimit) {
  EXPECT_NO_THROW(BatchProducer(counting(3), kMaxBatchSize));
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}, kMaxBatchSize + 1}) {
    EXPECT_THAT(error_of([&] { BatchProducer(counting(3), size); }),
                HasSubstr("must be 1 to 16777216"));
  }
}

TEST(BatchProducer, Refusals) {
  EXPECT_THAT(error_of([] { BatchProducer(nullptr, 2); }),
              HasSubstr("BatchProducer needs a source"));
  EXPECT_THAT(error_of([] { BatchProducer(std::make_shared<BatchProducer>(counting(3), 2), 2); }),
              HasSubstr("its source yields batches"));
  SyntheticOptions options;
  BatchProducer endless(std::make_shared<EndlessSyntheticProducer>(options), 4);
  EXPECT_THROW(endless.skip(INT64_MAX), Error);
}

TEST(MapProducer, ChecksWhatTheFunctionMakes) {
  const TensorSpec pair{{2}, DType::kFloat32};
  MapProducer wrong(
      counting(3), [](const Tensor& in) { return in; }, pair);
  EXPECT_THAT(error_of([&] { static_cast<void>(wrong.next()); }),
              HasSubstr("made float32 {1} where it promised float32 {2}"));
  EXPECT_EQ(wrong.position().delivered, 0);
  IndexedMapProducer indexed(
      counting(3), [](const Tensor&) { return Tensor(); }, pair);
  EXPECT_THAT(error_of([&] { static_cast<void>(indexed.next()); }),
              HasSubstr("an undefined tensor"));
  EXPECT_THROW(MapProducer(counting(3), nullptr, pair), Error);
}

TEST(MapProducer, WhatTheFunctionThrowsLosesNothing) {
  int calls = 0;
  MapProducer map(counting(3),
                  [&](const Tensor& in) {
                    if (++calls == 2) throw std::runtime_error("not now");
                    return in;
                  },
                  {{1}, DType::kFloat32});
  EXPECT_EQ(map.next()->values<float>()[0], 0);
  EXPECT_THROW(static_cast<void>(map.next()), std::runtime_error);
  EXPECT_THAT(flat(map), ElementsAre(1, 2));
}

TEST(CacheProducer, ReadsItsSourceOnce) {
  const auto source = std::make_shared<Flaky>(counting(10000));
  CacheProducer cache(source);
  EXPECT_EQ(source->rows_read, 0);
  EXPECT_THROW(static_cast<void>(cache.next()), Error);  // and the next read tries again
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    cache.begin_epoch({0, epoch});
    EXPECT_EQ(flat(cache).size(), 10000);
  }
  EXPECT_EQ(source->rows_read, 10000);
}

TEST(CacheProducer, AboveTheLimitReadsThroughWithOneWarning) {
  const LogCapture log;
  const std::size_t bytes = 10 * sizeof(float);
  EXPECT_TRUE(CacheProducer(counting(10), bytes).caches());
  EXPECT_TRUE(log.lines().empty());
  const auto source = std::make_shared<Flaky>(counting(10));
  CacheProducer cache(source, bytes - 1);
  EXPECT_FALSE(cache.caches());
  EXPECT_THROW(static_cast<void>(flat(cache)), Error);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    cache.begin_epoch({0, epoch});
    EXPECT_EQ(flat(cache).size(), 10);
  }
  EXPECT_GE(source->rows_read, 20);
  ASSERT_EQ(log.lines().size(), 1);
  EXPECT_THAT(log.lines()[0], HasSubstr("cache limit of 39 bytes: not cached"));
}

TEST(AugmentProducer, Normalises) {
  AugmentOptions options;
  options.mean = {1, 10};
  options.deviation = {2, 5};
  AugmentProducer channels(counting(1, {2, 1, 2}), options);  // 0 1 | 2 3
  EXPECT_THAT(flat(channels), ElementsAre(-0.5F, 0.0F, -1.6F, -1.4F));
  options.mean = {1};
  options.deviation = {1};
  AugmentProducer all(counting(1, {2, 1, 2}), options);
  EXPECT_THAT(flat(all), ElementsAre(-1, 0, 1, 2));
}

TEST(AugmentProducer, FlipsHalfOfTheSamples) {
  AugmentOptions options;
  options.flip = true;
  AugmentProducer flips(counting(1000, {2, 2}), options);
  int flipped = 0;
  for (float first = 0; const auto sample = flips.next(); first += 4) {
    const auto values = sample->values<float>();
    if (values[0] == first) {
      EXPECT_THAT(values, ElementsAre(first, first + 1, first + 2, first + 3));
    } else {
      EXPECT_THAT(values, ElementsAre(first + 1, first, first + 3, first + 2));
      ++flipped;
    }
  }
  EXPECT_GT(flipped, 430);
  EXPECT_LT(flipped, 570);
}

TEST(AugmentProducer, CropsAreShiftsWithZeros) {
  AugmentOptions options;
  options.crop_padding = 1;
  Tensor image = Tensor::of<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto rows = std::make_shared<SliceProducer>(std::make_shared<MemoryProducer>(image),
                                                    std::vector<std::int64_t>(200, 0));
  AugmentProducer crops(rows, options);
  std::vector<int> seen(9);
  while (const auto sample = crops.next()) {
    const auto values = sample->values<float>();
    // The middle element tells which of the nine places was cut out.
    const int centre = static_cast<int>(values[4]);
    const int down = 1 - (centre - 1) / 3;
    const int right = 1 - (centre - 1) % 3;
    ++seen[static_cast<std::size_t>(centre - 1)];
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 3; ++x) {
        const bool inside = y - down >= 0 && y - down < 3 && x - right >= 0 && x - right < 3;
        EXPECT_EQ(values[static_cast<std::size_t>(3 * y + x)],
                  inside ? static_cast<float>(3 * (y - down) + x - right + 1) : 0.0F);
      }
    }
  }
  EXPECT_THAT(seen, Each(::testing::Gt(5)));
}

TEST(AugmentProducer, NoiseHasItsDeviation) {
  AugmentOptions options;
  options.noise = 0.5F;
  const auto zeros = std::make_shared<MemoryProducer>(Tensor::zeros({100, 100}));
  AugmentProducer noisy(zeros, options);
  double sum = 0;
  double squares = 0;
  for (const float value : flat(noisy)) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 10000, 0.0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.5, 0.02);
}

TEST(AugmentProducer, Refusals) {
  const auto refusal = [](const AugmentOptions& options, const ProducerPtr& source) {
    return error_of([&] { AugmentProducer(source, options); });
  };
  AugmentOptions options;
  options.crop_padding = 1;
  EXPECT_THAT(refusal(options, counting(1)), HasSubstr("cannot be cropped"));
  options.crop_padding = kMaxCropPadding;
  EXPECT_EQ(refusal(options, counting(1, {2, 2})), "no error");
  options.crop_padding = kMaxCropPadding + 1;
  EXPECT_THAT(refusal(options, counting(1, {2, 2})), HasSubstr("must be 0 to 1024"));
  options = {};
  options.noise = NAN;
  EXPECT_THAT(refusal(options, counting(1)), HasSubstr("noise"));
  options = {};
  options.mean = {1, 2};
  options.deviation = {1, 2};
  EXPECT_THAT(refusal(options, counting(1, {3})), HasSubstr("2 means and 2 deviations"));
  options.mean = {1};
  options.deviation = {};
  EXPECT_THAT(refusal(options, counting(1)), HasSubstr("1 means and 0 deviations"));
  options.deviation = {0};
  EXPECT_THAT(refusal(options, counting(1)), HasSubstr("above 0"));
  EXPECT_THAT(refusal({}, std::make_shared<BatchProducer>(counting(3), 2)), HasSubstr("batches"));
  const auto integers = std::make_shared<MemoryProducer>(Tensor::zeros({2, 1}, DType::kInt64));
  EXPECT_THAT(refusal({}, integers), HasSubstr("needs float32 samples"));
}

// Says through a channel that it was asked for a tensor.
class Watched final : public ChainedProducer {
 public:
  Watched(ProducerPtr source, Channel<std::int64_t>& asked)
      : ChainedProducer(std::move(source), "Watched"), asked_(asked) {}
  [[nodiscard]] std::optional<Tensor> next() override {
    asked_.push(position().delivered);
    return source().next();
  }

 private:
  Channel<std::int64_t>& asked_;
};

TEST(PrefetchProducer, ReadsAheadUpToItsDepth) {
  Channel<std::int64_t> asked(100);
  {
    PrefetchProducer prefetch(std::make_shared<Watched>(counting(50), asked), 3);
    EXPECT_EQ(asked.size(), 0);
    EXPECT_EQ(prefetch.next()->values<float>()[0], 0);
    // Sample 0 is taken, 3 are kept ready and one more waits for room.
    for (std::int64_t i = 0; i <= 4; ++i) EXPECT_EQ(asked.pop(std::chrono::minutes(5)), i);
  }
  EXPECT_EQ(asked.size(), 0);
}

TEST(PrefetchProducer, StopsAtAnyMoment) {
  for (int taken = 0; taken < 12; ++taken) {
    PrefetchProducer prefetch(counting(10), 2);
    for (int i = 0; i < taken; ++i) static_cast<void>(prefetch.next());
  }
}

TEST(PrefetchProducer, BothSidesOfASplitAtOnce) {
  const auto source = std::make_shared<CacheProducer>(counting(2000));
  const Split split = train_test_split(source, 0.5);
  PrefetchProducer train(std::make_shared<BatchProducer>(split.train, 16), 4);
  BatchProducer test(split.test, 16);
  double sum = 0;
  while (const auto batch = train.next()) {
    for (const float value : batch->values<float>()) sum += value;
    if (const auto other = test.next()) {
      for (const float value : other->values<float>()) sum += value;
    }
  }
  EXPECT_EQ(sum, 1999 * 1000);
}

TEST(PrefetchProducer, DepthLimit) {
  EXPECT_NO_THROW(PrefetchProducer(counting(1), kMaxPrefetchDepth));
  EXPECT_THAT(error_of([] { PrefetchProducer(counting(1), kMaxPrefetchDepth + 1); }),
              HasSubstr("must be 1 to 1024"));
  EXPECT_THROW(PrefetchProducer(counting(1), 0), Error);
}

}  // namespace
}  // namespace harmonics::inline in_data
