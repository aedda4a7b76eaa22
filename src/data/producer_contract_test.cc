// What every producer promises, checked on each. A new producer joins with one line in kCases.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/data/augment_producer.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/cache_producer.h>
#include <harmonics/data/csv_producer.h>
#include <harmonics/data/idx_producer.h>
#include <harmonics/data/map_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/npy_producer.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/data/prefetch_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>
#include <harmonics/data/synthetic_producer.h>

#include <temporary_folder_testing.h>

#if HARMONICS_HAS_ARROW
#include "arrow/small_parquet_testing.h"
#endif

namespace harmonics::inline in_data {
namespace {

constexpr std::size_t kTakenOfEndless = 20;
constexpr SampleOrder kOrder{7, 3};

// The data under every case: eleven samples of shape {1, 2, 2}, told apart by their values.
const TemporaryFolder& folder() {
  static const TemporaryFolder made;
  return made;
}

std::shared_ptr<CsvProducer> csv() {
  std::string text;
  for (int i = 0; i < 11; ++i) text += format("{},{}.5,-{},{}\n", i, i, i, i * i);
  CsvOptions options;
  options.shape = {1, 2, 2};
  static const auto path = folder().write("rows.csv", text);
  return std::make_shared<CsvProducer>(path, options);
}

std::shared_ptr<IdxProducer> idx() {
  std::string bytes("\0\0\x08\x03\0\0\0\x05\0\0\0\x02\0\0\0\x03", 16);
  for (int i = 0; i < 30; ++i) bytes += static_cast<char>(i * 7);
  static const auto path = folder().write("images.idx", bytes);
  return std::make_shared<IdxProducer>(path, IdxOptions{DType::kFloat32, 1.0 / 255});
}

ProducerPtr npy() {
  std::string bytes = std::string("\x93NUMPY\1\0\x46\0", 10) +
                      "{'descr': '|i1', 'fortran_order': False, 'shape': (5, 2, 3), }";
  bytes.resize(80, ' ');
  for (int i = 0; i < 30; ++i) bytes += static_cast<char>(i * 7);
  static const auto path = folder().write("array.npy", bytes);
  return std::make_shared<NpyProducer>(path);
}

std::shared_ptr<MemoryProducer> memory() {
  Tensor rows = Tensor::empty({9, 2}, DType::kInt64);
  std::iota(rows.mutable_values<std::int64_t>().begin(), rows.mutable_values<std::int64_t>().end(),
            0);
  return std::make_shared<MemoryProducer>(rows);
}

SyntheticOptions normal() {
  SyntheticOptions options;
  options.shape = {2, 3};
  options.kind = SyntheticKind::kNormal;
  return options;
}

Tensor doubled(const Tensor& in) {
  Tensor out = Tensor::empty(in.shape(), in.dtype());
  std::ranges::transform(in.values<float>(), out.mutable_values<float>().begin(),
                         [](float value) { return 2 * value; });
  return out;
}

AugmentOptions everything() {
  AugmentOptions options;
  options.crop_padding = 1;
  options.flip = true;
  options.noise = 0.1F;
  options.mean = {0.5F};
  options.deviation = {2.0F};
  return options;
}

#if HARMONICS_HAS_ARROW
ProducerPtr parquet() {
  folder().write("rows.parquet", small_parquet());
  return open_producer("parquet:rows.parquet", folder().path());
}
#endif

#if HARMONICS_HAS_TEXT
ProducerPtr text() {
  folder().write("lines.txt", "a b\nb\n\nc a b a\n");
  folder().write("tokenizer.json", R"({"pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "BPE", "vocab": {"a": 1, "b": 2, "c": 3}, "merges": []}})");
  return open_producer("text:lines.txt?tokenizer=tokenizer.json&length=3", folder().path());
}
#endif

#if HARMONICS_HAS_IMAGES
// Two grey pixels each.
ProducerPtr images() {
  const std::string_view png(
      "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\2\0\0\0\1\10\0\0\0\0\xd1I V"
      "\0\0\0\x0bIDATx\x9c\x63`\xff\1\0\1\t\1\0\xb1\x46\x0cw\0\0\0\0IEND\xae\x42`\x82",
      68);
  for (const char* name : {"pictures/1.png", "pictures/2.png", "pictures/3.png"}) {
    folder().write(name, png);
  }
  return open_producer("images:pictures?size=1x2", folder().path());
}
#endif

const TensorSpec kCsvSpec{{1, 2, 2}, DType::kFloat32};

// Streams are what a MapProducer makes of anything.
ProducerPtr stream() { return std::make_shared<MapProducer>(csv(), doubled, kCsvSpec); }
ProducerPtr endless() { return std::make_shared<EndlessSyntheticProducer>(normal()); }
ProducerPtr shuffled() { return std::make_shared<ShuffleProducer>(csv(), 5); }
ProducerPtr augmented() { return std::make_shared<AugmentProducer>(shuffled(), everything()); }
template <typename T, typename... Args>
std::function<ProducerPtr()> over(std::function<ProducerPtr()> source, Args... args) {
  return [=] { return std::make_shared<T>(source(), args...); };
}

struct Case {
  std::string name;
  std::function<ProducerPtr()> make;
  bool varies = false;  // whether the epochs of a run differ
};

const std::vector<Case> kCases = {
    {"Csv", csv},
    {"Idx", idx},
    {"Npy", npy},
    {"Memory", memory},
    {"MemoryEmpty",
     [] {
       return std::make_shared<MemoryProducer>(Tensor::empty({0, 2}));
     }},
    {"Synthetic", [] { return std::make_shared<SyntheticProducer>(8, normal()); }},
    {"Endless", endless, true},
    {"Opened", [] { return open_producer("synthetic:?size=6&kind=integers&below=9&shape=2", ""); }},
#if HARMONICS_HAS_ARROW
    {"Parquet", parquet},
#endif
#if HARMONICS_HAS_TEXT
    {"Text", text},
#endif
#if HARMONICS_HAS_IMAGES
    {"Images", images},
#endif
    {"Map", stream},
    {"IndexedMap", [] { return std::make_shared<IndexedMapProducer>(csv(), doubled, kCsvSpec); }},
    {"Cache", [] { return std::make_shared<CacheProducer>(csv()); }},
    {"CacheTooSmall", [] { return std::make_shared<CacheProducer>(csv(), 10); }},
    {"Slice",
     [] {
       return std::make_shared<SliceProducer>(csv(), std::vector<std::int64_t>{4, 2, 4});
     }},
    {"SplitTrain", [] { return train_test_split(csv()).train; }},
    {"SplitTest", [] { return train_test_split(csv(), 0.5).test; }},
    {"Batch", over<BatchProducer>(csv, 4)},
    {"BatchOfOne", over<BatchProducer>(memory, 1)},
    {"BatchEven", over<BatchProducer>(memory, 3)},
    {"BatchOfAll", over<BatchProducer>(stream, 100)},
    {"BatchEndless", over<BatchProducer>(endless, 3), true},
    {"Shuffle", shuffled, true},
    {"ShuffleWindow", over<ShuffleProducer>(stream, 5, 4), true},
    {"ShuffleOneWindow", over<ShuffleProducer>(stream, 5, 64), true},
    {"ShuffleEndless", over<ShuffleProducer>(endless, 5, 3), true},
    {"Augment", over<AugmentProducer>(csv, everything()), true},
    {"AugmentShuffle", augmented, true},
    {"Prefetch", over<PrefetchProducer>(csv, 2), false},
    {"PrefetchDeep", over<PrefetchProducer>(shuffled, 64), true},
    {"PrefetchEndless", over<PrefetchProducer>(endless, 3), true},
    {"BatchShuffle", over<BatchProducer>(shuffled, 4), true},
    {"BatchShuffleWindow", over<BatchProducer>(over<ShuffleProducer>(stream, 5, 4), 3), true},
    {"PrefetchBatchAugment", over<PrefetchProducer>(over<BatchProducer>(augmented, 3), 2), true},
    {"MapBatch", over<MapProducer>(over<BatchProducer>(csv, 4), doubled, kCsvSpec)},
    {"BatchPrefetch", over<BatchProducer>(over<PrefetchProducer>(shuffled, 2), 4), true},
};

class ProducerContract : public ::testing::TestWithParam<Case> {
 protected:
  ProducerPtr make() const { return GetParam().make(); }
  ProducerPtr make(const SampleOrder& order) const {
    ProducerPtr producer = make();
    producer->begin_epoch(order);
    return producer;
  }
};

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::ranges::equal(a.bytes(), b.bytes());
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return same(x, y); });
}

// What is left of the epoch, or up to the twentieth tensor of an endless one.
std::vector<Tensor> rest(Producer& producer) {
  std::vector<Tensor> tensors;
  while (producer.size() || producer.position().delivered < std::int64_t{kTakenOfEndless}) {
    auto tensor = producer.next();
    if (!tensor) break;
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

TEST_P(ProducerContract, EpochsRepeat) {
  const ProducerPtr producer = make(kOrder);
  const auto first = rest(*producer);
  producer->begin_epoch({1, 1});
  static_cast<void>(rest(*producer));
  producer->begin_epoch(kOrder);
  EXPECT_TRUE(same(first, rest(*producer)));
  EXPECT_TRUE(same(first, rest(*make(kOrder))));
}

TEST_P(ProducerContract, OnlyTheOrderMakesEpochsDiffer) {
  const auto first = rest(*make(kOrder));
  EXPECT_EQ(!same(first, rest(*make({kOrder.seed, kOrder.epoch + 1}))), GetParam().varies);
  EXPECT_EQ(!same(first, rest(*make({kOrder.seed + 1, kOrder.epoch}))), GetParam().varies);
}

TEST_P(ProducerContract, StartsAtTheBeginningOfItsFirstEpoch) {
  const ProducerPtr producer = make();
  EXPECT_EQ(producer->position().delivered, 0);
  EXPECT_EQ(producer->position().order.epoch, 0U);
  EXPECT_TRUE(same(rest(*make(producer->position().order)), rest(*producer)));
}

TEST_P(ProducerContract, SizesMatch) {
  const ProducerPtr producer = make(kOrder);
  if (!producer->size()) {
    EXPECT_FALSE(producer->sample_count());
    EXPECT_EQ(rest(*producer).size(), kTakenOfEndless);
    return;
  }
  const auto tensors = rest(*producer);
  EXPECT_EQ(std::ssize(tensors), *producer->size());
  std::int64_t samples = 0;
  for (const Tensor& tensor : tensors) samples += producer->batched() ? tensor.shape().at(0) : 1;
  EXPECT_EQ(samples, *producer->sample_count());
}

TEST_P(ProducerContract, EveryTensorMatchesTheSpec) {
  const ProducerPtr producer = make(kOrder);
  const TensorSpec spec = producer->sample_spec();
  for (const Tensor& tensor : rest(*producer)) {
    EXPECT_EQ(tensor.dtype(), spec.dtype);
    Shape shape = tensor.shape();
    if (producer->batched()) shape.erase(shape.begin());
    EXPECT_EQ(shape, spec.shape);
  }
}

TEST_P(ProducerContract, ResumesFromEveryPosition) {
  const auto all = rest(*make(kOrder));
  const ProducerPtr walker = make(kOrder);
  const ProducerPtr jumper = make({9, 9});
  for (std::size_t done = 0; done <= all.size(); ++done) {
    const ProducerPosition position = walker->position();
    EXPECT_EQ(position, (ProducerPosition{kOrder, static_cast<std::int64_t>(done)}));
    const std::vector<Tensor> left(all.begin() + static_cast<std::ptrdiff_t>(done), all.end());
    const ProducerPtr fresh = make();
    fresh->seek(position);
    EXPECT_EQ(fresh->position(), position);
    EXPECT_TRUE(same(left, rest(*fresh))) << "fresh, after " << done;
    jumper->seek(position);  // from wherever it stood
    EXPECT_TRUE(same(left, rest(*jumper))) << "used, after " << done;
    if (done < all.size()) {
      ASSERT_TRUE(same(*walker->next(), all[done]));
    }
  }
}

TEST_P(ProducerContract, SkippingIsLikeTaking) {
  const auto all = rest(*make(kOrder));
  for (std::size_t step = 1; step <= all.size() + 1; ++step) {
    const ProducerPtr producer = make(kOrder);
    for (std::size_t at = 0; at < all.size(); at += step + 1) {
      ASSERT_TRUE(same(*producer->next(), all[at])) << "step " << step << " at " << at;
      producer->skip(static_cast<std::int64_t>(step));
    }
    producer->skip(0);
    producer->skip(-1);
    if (producer->size()) {
      EXPECT_EQ(producer->position().delivered, *producer->size());
    }
  }
}

TEST_P(ProducerContract, RowsAreTheSamples) {
  const ProducerPtr producer = make(kOrder);
  const std::size_t each = sample_bytes(producer->sample_spec());
  std::vector<std::byte> room(3 * each);
  if (producer->batched()) {
    EXPECT_THROW(static_cast<void>(producer->next_rows(3, room)), Error);
    return;
  }
  std::vector<std::byte> rows;
  std::vector<std::byte> expected;
  const auto all = rest(*make(kOrder));
  for (const Tensor& tensor : all) {
    expected.insert(expected.end(), tensor.bytes().begin(), tensor.bytes().end());
  }
  while (rows.size() < expected.size()) {
    const auto got = producer->next_rows(3, room);
    ASSERT_GT(got, 0);
    rows.insert(rows.end(), room.begin(), room.begin() + got * static_cast<std::ptrdiff_t>(each));
  }
  rows.resize(expected.size());  // an endless source gives more
  EXPECT_EQ(rows, expected);
  if (producer->size()) {
    EXPECT_EQ(producer->next_rows(3, room), 0);
  }
}

TEST_P(ProducerContract, TheEndIsStable) {
  const ProducerPtr producer = make(kOrder);
  if (!producer->size()) return;
  static_cast<void>(rest(*producer));
  const ProducerPosition end = producer->position();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(producer->next());
    EXPECT_EQ(producer->position(), end);
  }
}

TEST_P(ProducerContract, APositionPastTheEndIsRefused) {
  const ProducerPtr producer = make(kOrder);
  if (!producer->size()) return;
  EXPECT_THROW(producer->seek({kOrder, *producer->size() + 1}), Error);
  EXPECT_THROW(producer->seek({kOrder, -1}), Error);
}

TEST_P(ProducerContract, IndexedOnesReadInAnyOrder) {
  const auto indexed = std::dynamic_pointer_cast<IndexedProducer>(make(kOrder));
  if (indexed == nullptr) return;
  const auto all = rest(*indexed);
  const std::size_t each = sample_bytes(indexed->sample_spec());
  std::vector<std::int64_t> rows(all.size());
  std::iota(rows.rbegin(), rows.rend(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) rows.push_back(static_cast<std::int64_t>(i));
  std::vector<std::byte> out(rows.size() * each);
  indexed->read(rows, out);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(all[static_cast<std::size_t>(rows[i])].bytes(),
                                   std::span(out).subspan(i * each, each)));
  }
  std::vector<std::byte> room(each);
  for (const std::int64_t outside : {std::int64_t{-1}, indexed->row_count()}) {
    EXPECT_THROW(indexed->read(std::span(&outside, 1), room), Error);
  }
  if (!all.empty()) {
    EXPECT_THROW(indexed->read(std::span(rows).first(1), out), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProducerContract, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace harmonics::inline in_data
