// The examples of docs/Datasets.md, compiled and run. Every cpp block of that page must stand in
// this file line by line (indentation aside); the last test checks it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <harmonics/data/augment_producer.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/cache_producer.h>
#include <harmonics/data/csv_consumer.h>
#include <harmonics/data/csv_producer.h>
#include <harmonics/data/idx_producer.h>
#include <harmonics/data/map_producer.h>
#include <harmonics/data/memory_consumer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/data/open_producer.h>
#include <harmonics/data/prefetch_producer.h>
#include <harmonics/data/shuffle_producer.h>
#include <harmonics/data/slice_producer.h>
#include <harmonics/data/synthetic_producer.h>

#include <temporary_folder_testing.h>

namespace {

using namespace harmonics;
using ::testing::ElementsAre;

class DatasetsDoc : public ::testing::Test {
 protected:
  DatasetsDoc() {
    std::string text;
    for (int i = 0; i < 50; ++i) text += format("{},{},{},{},{}\n", i % 17, i % 5, 16, 0, i % 10);
    folder_.write("digits.csv", text);
    folder_.write("digits.idx",
                  std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x02\x00\xff\x33\x66", 16));
  }

  TemporaryFolder folder_;
  const std::filesystem::path& folder = folder_.path();
  const std::string dataset_path = (folder / "digits.csv").string();
  const std::string digits_path = dataset_path;
  const std::string idx_path = (folder / "digits.idx").string();
  const std::string output_path = (folder / "out.csv").string();
};

TEST_F(DatasetsDoc, First) {
  const std::size_t batch_size = 16;
  auto csv = std::make_shared<CsvProducer>(dataset_path);
  auto batched = std::make_shared<BatchProducer>(csv, batch_size);
  EXPECT_EQ(batched->size(), 4);
  const ProducerPtr producer = batched;

  producer->begin_epoch({.seed = 1, .epoch = 0});
  static_cast<void>(producer->next());
  const ProducerPosition saved = producer->position();
  const Tensor expected = *producer->next();
  producer->seek(saved);
  const Tensor again = *producer->next();
  EXPECT_TRUE(std::ranges::equal(expected.bytes(), again.bytes()));
}

TEST_F(DatasetsDoc, CsvAndShuffle) {
  CsvOptions pixels;
  pixels.columns = "0-3";  // numbers from 0, ranges, header names: "7,0-3", "width,height"
  pixels.scale = 1.0 / 16;
  pixels.shape = {1, 2, 2};
  auto images = std::make_shared<CsvProducer>(digits_path, pixels);

  CsvOptions digit;
  digit.columns = "4";
  digit.dtype = DType::kInt64;
  auto labels = std::make_shared<CsvProducer>(digits_path, digit);
  EXPECT_EQ(images->sample_spec(), (TensorSpec{{1, 2, 2}, DType::kFloat32}));

  auto shuffled_images = std::make_shared<ShuffleProducer>(images);
  auto shuffled_labels = std::make_shared<ShuffleProducer>(labels);
  const SampleOrder order{.seed = 42, .epoch = 3};
  shuffled_images->begin_epoch(order);
  shuffled_labels->begin_epoch(order);  // row by row, still the label of its image
  while (const auto image = shuffled_images->next()) {
    // The second pixel is i % 5 sixteenths, the label i % 10.
    const auto label = shuffled_labels->next()->values<std::int64_t>()[0];
    EXPECT_EQ(image->values<float>()[1] * 16, static_cast<float>(label % 5));
  }
}

TEST_F(DatasetsDoc, Idx) {
  IdxOptions bytes_to_unit;
  bytes_to_unit.scale = 1.0 / 255;  // float32, unless dtype says otherwise
  auto digits = std::make_shared<IdxProducer>(idx_path, bytes_to_unit);
  EXPECT_THAT(digits->next()->values<float>(), ElementsAre(0.0F, 1.0F));
}

TEST_F(DatasetsDoc, MemoryAndConsumers) {
  Tensor table = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  auto rows = std::make_shared<MemoryProducer>(table);
  EXPECT_EQ(rows->row_count(), 3);

  CsvConsumer file(output_path, {.header = {"x", "y"}});
  MemoryConsumer memory;
  file.push(table);
  memory.push(table);
  file.finish();
  const Tensor everything = memory.rows();
  EXPECT_EQ(everything.shape(), (Shape{3, 2}));
  EXPECT_EQ(read_text_file(output_path), "x,y\n1,2\n3,4\n5,6\n");
}

TEST_F(DatasetsDoc, SyntheticAndAugment) {
  SyntheticOptions noise_images;
  noise_images.shape = {3, 32, 32};
  noise_images.kind = SyntheticKind::kNormal;
  auto sized = std::make_shared<SyntheticProducer>(1000, noise_images);
  auto endless = std::make_shared<EndlessSyntheticProducer>(noise_images);
  EXPECT_EQ(sized->size(), 1000);
  EXPECT_FALSE(endless->size());

  AugmentOptions augment;
  augment.crop_padding = 4;
  augment.flip = true;
  augment.noise = 0.01F;
  augment.mean = {0.49F, 0.48F, 0.45F};  // one for each channel, or one for all
  augment.deviation = {0.25F, 0.24F, 0.26F};
  auto augmented = std::make_shared<AugmentProducer>(sized, augment);
  EXPECT_EQ(augmented->next()->shape(), (Shape{3, 32, 32}));
}

TEST_F(DatasetsDoc, FromText) {
  auto inputs = open_producer("csv:digits.csv?columns=0-3&scale=0.0625&shape=1x2x2", folder);
  auto targets = open_producer("csv:digits.csv?columns=4&dtype=int64", folder);
  auto random = open_producer("synthetic:?shape=3x32x32&size=100&kind=uniform&seed=1", folder);
  EXPECT_EQ(inputs->row_count(), targets->row_count());
  EXPECT_EQ(random->row_count(), 100);
}

TEST_F(DatasetsDoc, Chains) {
  auto csv = std::make_shared<CsvProducer>(dataset_path);
  BatchProducer batches(csv, 32);
  const std::optional<Tensor> batch = batches.next();  // float32 {32, columns}
  EXPECT_EQ(batch->shape(), (Shape{32, 5}));

  auto first_and_last = std::make_shared<SliceProducer>(csv, std::vector<std::int64_t>{0, 9});
  const Split split = train_test_split(csv, 0.2, /*seed=*/0);
  EXPECT_EQ(first_and_last->row_count(), 2);
  EXPECT_EQ(split.test->row_count(), 10);

  auto halve = [](const Tensor& in) {
    Tensor out = Tensor::empty(in.shape(), in.dtype());
    for (std::int64_t i = 0; i < in.size(); ++i) {
      out.mutable_values<float>()[i] = in.values<float>()[i] / 2;
    }
    return out;
  };
  auto halved = std::make_shared<MapProducer>(csv, halve, csv->sample_spec());
  auto still_indexed = std::make_shared<IndexedMapProducer>(csv, halve, csv->sample_spec());
  EXPECT_EQ(halved->next()->values<float>()[2], 8);
  EXPECT_EQ(still_indexed->next()->values<float>()[2], 8);

  auto cached = std::make_shared<CacheProducer>(csv, /*limit_bytes=*/std::size_t{256} << 20);

  auto ready = std::make_shared<PrefetchProducer>(
      std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(cached), 32), /*depth=*/4);
  EXPECT_EQ(ready->next()->shape(), (Shape{32, 5}));
}

class Squares final : public IndexedProducer {
 public:
  TensorSpec sample_spec() const override { return {{1}, DType::kInt64}; }
  std::int64_t row_count() const override { return 100; }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override {
    check_read(rows, out);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t square = rows[i] * rows[i];
      std::memcpy(out.data() + 8 * i, &square, sizeof square);
    }
  }
};

TEST_F(DatasetsDoc, OfYourOwn) {
  BatchProducer batches(std::make_shared<Squares>(), 4);
  EXPECT_THAT(batches.next()->values<std::int64_t>(), ElementsAre(0, 1, 4, 9));
}

// Lines without their indentation; empty ones left out.
std::string lines_of(const std::string& text) {
  std::string out = "\n";
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (!line.empty()) out += line + '\n';
  }
  return out;
}

TEST(DatasetsPage, EveryExampleIsInThisFile) {
  const char* root = std::getenv("HARMONICS_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "HARMONICS_SOURCE_DIR is not set";
  const std::filesystem::path folder = root;
  const std::string source = lines_of(read_text_file(folder / "src/data/datasets_doc_test.cc"));
  const std::string page = read_text_file(folder / "docs/Datasets.md");
  const std::string fence = "```cpp\n";
  int blocks = 0;
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at)) {
    at += fence.size();
    const std::string block = page.substr(at, page.find("```", at) - at);
    EXPECT_NE(source.find(lines_of(block)), std::string::npos) << "not compiled:\n" << block;
    ++blocks;
  }
  EXPECT_GE(blocks, 15);
}

TEST(DatasetsPage, NamesEveryProducerAndConsumer) {
  const char* root = std::getenv("HARMONICS_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "HARMONICS_SOURCE_DIR is not set";
  const std::filesystem::path folder = root;
  const std::string page = read_text_file(folder / "docs/Datasets.md");
  const std::regex declared(R"(\nclass (\w+(?:Producer|Consumer))\b)");
  std::set<std::string> names;
  for (const std::filesystem::path& file :
       list_folder(folder / "src/data/include/harmonics/data")) {
    const std::string text = read_text_file(file);
    for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at) {
      names.insert((*at)[1]);
    }
  }
  names.erase("ChainedProducer");  // what some of the others are made of
  EXPECT_GE(names.size(), 16u);
  for (const std::string& name : names) {
    EXPECT_TRUE(std::regex_search(page, std::regex("\\b" + name + "\\b"))) << name;
  }
}

}  // namespace
