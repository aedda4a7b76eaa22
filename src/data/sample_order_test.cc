// One sample order drives all bindings: inputs and labels never part, in any composition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include <harmonics/data/batch_producer.h>
#include <harmonics/data/map_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/prefetch_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>

#include <error_testing.h>

namespace harmonics::inline in_data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 100;

// Row r of the inputs is {r, -r}, row r of the labels is r.
IndexedProducerPtr inputs(std::int64_t rows = kRows) {
  Tensor data = Tensor::empty({rows, 2});
  for (std::int64_t r = 0; r < rows; ++r) {
    data.mutable_values<float>()[static_cast<std::size_t>(2 * r)] = static_cast<float>(r);
    data.mutable_values<float>()[static_cast<std::size_t>(2 * r + 1)] = static_cast<float>(-r);
  }
  return std::make_shared<MemoryProducer>(data);
}

IndexedProducerPtr labels(std::int64_t rows = kRows) {
  Tensor data = Tensor::empty({rows, 1}, DType::kInt64);
  std::iota(data.mutable_values<std::int64_t>().begin(), data.mutable_values<std::int64_t>().end(),
            0);
  return std::make_shared<MemoryProducer>(data);
}

ProducerPtr as_stream(const ProducerPtr& source) {
  return std::make_shared<MapProducer>(
      source, [](const Tensor& in) { return in; }, source->sample_spec());
}

struct Pairing {
  std::int64_t parted = 0;           // rows whose label is not theirs
  std::vector<std::int64_t> labels;  // in the order they came
};

// Walks both through one epoch, side by side, as a run does.
Pairing pair_up(Producer& input, Producer& label) {
  Pairing pairing;
  while (true) {
    const auto x = input.next();
    const auto y = label.next();
    EXPECT_EQ(x.has_value(), y.has_value());
    if (!x || !y) return pairing;
    EXPECT_EQ(x->shape()[0], y->shape()[0]);
    for (std::int64_t i = 0; i < std::min(x->shape()[0], y->shape()[0]); ++i) {
      const std::int64_t row = y->values<std::int64_t>()[static_cast<std::size_t>(i)];
      const float value = x->values<float>()[static_cast<std::size_t>(2 * i)];
      if (value != static_cast<float>(row)) ++pairing.parted;
      pairing.labels.push_back(row);
    }
  }
}

using Compose = std::function<ProducerPtr(IndexedProducerPtr)>;

struct Composition {
  const char* name;
  Compose make;
};

const Composition kCompositions[] = {
    {"batch of shuffle",
     [](auto source) {
       return std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(source), 7);
     }},
    {"prefetch of batch of shuffle",
     [](auto source) {
       return std::make_shared<PrefetchProducer>(
           std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(source), 7), 3);
     }},
    {"batch of map of shuffle",
     [](auto source) {
       return std::make_shared<BatchProducer>(as_stream(std::make_shared<ShuffleProducer>(source)),
                                              8);
     }},
    {"batch of window shuffle",
     [](auto source) {
       return std::make_shared<BatchProducer>(
           std::make_shared<ShuffleProducer>(as_stream(source), 0, 16), 7);
     }},
    {"batch of shuffle of split",
     [](auto source) {
       return std::make_shared<BatchProducer>(
           std::make_shared<ShuffleProducer>(train_test_split(source).train), 7);
     }},
};

TEST(SampleOrder, InputsAndLabelsNeverPart) {
  for (const Composition& composition : kCompositions) {
    const ProducerPtr x = composition.make(inputs());
    const ProducerPtr y = composition.make(labels());
    std::set<std::vector<std::int64_t>> orders;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      x->begin_epoch({11, epoch});
      y->begin_epoch({11, epoch});
      const Pairing pairing = pair_up(*x, *y);
      EXPECT_EQ(pairing.parted, 0) << composition.name;
      EXPECT_EQ(std::ssize(pairing.labels), *x->sample_count()) << composition.name;
      EXPECT_EQ(std::set(pairing.labels.begin(), pairing.labels.end()).size(),
                pairing.labels.size());
      orders.insert(pairing.labels);
    }
    EXPECT_EQ(orders.size(), 4) << composition.name << ": epochs repeat their order";
  }
}

// What the test above would see if an order came from anywhere else.
TEST(SampleOrder, AnotherOrderPartsThem) {
  for (const Composition& composition : kCompositions) {
    const ProducerPtr x = composition.make(inputs());
    for (const SampleOrder other : {SampleOrder{12, 0}, SampleOrder{11, 1}}) {
      const ProducerPtr y = composition.make(labels());
      x->begin_epoch({11, 0});
      y->begin_epoch(other);
      EXPECT_GT(pair_up(*x, *y).parted, kRows / 2) << composition.name;
    }
  }
  const auto x = std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(inputs()), 7);
  const auto unshuffled = std::make_shared<BatchProducer>(labels(), 7);
  EXPECT_GT(pair_up(*x, *unshuffled).parted, kRows / 2);
}

TEST(SampleOrder, TheSeedOfTheConstructorHoldsUntilAnEpochBegins) {
  const auto x = std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(inputs(), 1), 7);
  const auto y = std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(labels(), 2), 7);
  EXPECT_EQ(x->position().order, (SampleOrder{1, 0}));
  EXPECT_GT(pair_up(*x, *y).parted, 0);
  x->begin_epoch({5, 2});
  y->begin_epoch({5, 2});
  EXPECT_EQ(pair_up(*x, *y).parted, 0);
}

TEST(SampleOrder, OneWindowIsTheWholePermutation) {
  const auto x = std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(inputs()), 7);
  const auto y = std::make_shared<BatchProducer>(
      std::make_shared<ShuffleProducer>(as_stream(labels()), 0, kRows), 7);
  x->begin_epoch({3, 4});
  y->begin_epoch({3, 4});
  EXPECT_EQ(pair_up(*x, *y).parted, 0);
}

TEST(SampleOrder, WindowsAreShuffledWithinThemselvesAndUnlike) {
  ShuffleProducer window(as_stream(labels(32)), 0, 8);
  std::set<std::vector<std::int64_t>> seen;
  for (std::int64_t number = 0; number < 4; ++number) {
    std::vector<std::int64_t> rows;
    for (int i = 0; i < 8; ++i) {
      rows.push_back(window.next()->values<std::int64_t>()[0] - 8 * number);
    }
    seen.insert(rows);
    std::ranges::sort(rows);
    EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
  EXPECT_EQ(seen.size(), 4);
}

// Orders are part of what a checkpoint means: these numbers must never change.
TEST(SampleOrder, IsTheSameForEver) {
  ShuffleProducer shuffled(labels(8));
  shuffled.begin_epoch({1, 2});
  std::vector<std::int64_t> rows;
  while (const auto sample = shuffled.next()) rows.push_back(sample->values<std::int64_t>()[0]);
  EXPECT_THAT(rows, ElementsAre(3, 7, 6, 0, 4, 2, 5, 1));
  const Split split = train_test_split(labels(10));
  EXPECT_THAT(split.train->rows(), ElementsAre(1, 6, 5, 8, 2, 3, 4, 0));
  EXPECT_THAT(split.test->rows(), ElementsAre(7, 9));
}

TEST(Split, TogetherTheyHaveEveryRowOnce) {
  for (const double fraction : {0.0, 0.1, 0.25, 0.5, 0.99}) {
    const Split split = train_test_split(labels(), fraction, 3);
    EXPECT_EQ(split.test->row_count(), std::llround(fraction * kRows));
    std::vector<std::int64_t> rows = split.train->rows();
    rows.insert(rows.end(), split.test->rows().begin(), split.test->rows().end());
    std::ranges::sort(rows);
    std::vector<std::int64_t> all(kRows);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(rows, all);
  }
  EXPECT_NE(train_test_split(labels(), 0.2, 1).test->rows(),
            train_test_split(labels(), 0.2, 2).test->rows());
}

TEST(Split, Refusals) {
  for (const double fraction : {-0.1, 1.0, std::nan("")}) {
    EXPECT_THROW(static_cast<void>(train_test_split(labels(), fraction)), Error);
  }
  EXPECT_THROW(static_cast<void>(train_test_split(nullptr)), Error);
  EXPECT_THAT(error_of([] { SliceProducer(labels(), {0, kRows}); }), HasSubstr("row 100"));
}

TEST(ShuffleProducer, WindowLimit) {
  EXPECT_NO_THROW(ShuffleProducer(labels(), 0, kMaxShuffleWindow));
  EXPECT_THAT(error_of([] { ShuffleProducer(labels(), 0, kMaxShuffleWindow + 1); }),
              HasSubstr("must be 1 to 16777216"));
  EXPECT_THROW(ShuffleProducer(labels(), 0, 0), Error);
}

TEST(ShuffleProducer, RefusesBatches) {
  EXPECT_THAT(error_of([] { ShuffleProducer(std::make_shared<BatchProducer>(labels(), 4)); }),
              HasSubstr("put the BatchProducer after it"));
}

}  // namespace
}  // namespace harmonics::inline in_data
