#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/data/csv_consumer.h>
#include <harmonics/data/csv_producer.h>
#include <harmonics/data/memory_consumer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_data {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::size_t files_in(const TemporaryFolder& folder) {
  using Iterator = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Iterator(folder.path()), Iterator()));
}

TEST(CsvConsumer, WritesRowsThatReadBackTheSame) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.csv";
  Random random(1, "consumer");
  Tensor batch = Tensor::empty({50, 2, 3});
  for (float& value : batch.mutable_values<float>()) value = random.normal() * 1e-3F;
  batch.mutable_values<float>()[0] = std::numeric_limits<float>::denorm_min();
  batch.mutable_values<float>()[1] = std::numeric_limits<float>::max();
  batch.mutable_values<float>()[2] = -std::numeric_limits<float>::infinity();
  CsvConsumer consumer(path);
  consumer.push(batch.slice(0, 20));
  consumer.push(batch.slice(20, 50));
  EXPECT_FALSE(std::filesystem::exists(path));
  consumer.finish();
  consumer.finish();
  EXPECT_EQ(consumer.rows(), 50);
  CsvOptions options;
  options.shape = {2, 3};
  CsvProducer producer(path, options);
  Tensor read = Tensor::empty({50, 2, 3});
  EXPECT_EQ(producer.next_rows(50, read.mutable_bytes()), 50);
  EXPECT_TRUE(std::ranges::equal(read.bytes(), batch.bytes()));
  EXPECT_EQ(files_in(folder), 1);
}

TEST(CsvConsumer, RowsMayBeUnequalWhereThatIsSaid) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.csv";
  CsvConsumerOptions options;
  options.unequal_rows = true;
  CsvConsumer consumer(path, options);
  consumer.push(Tensor::of<std::int64_t>({2, 1}, {1, 2}));
  consumer.push(Tensor::of<std::int64_t>({1, 3}, {3, 4, 5}));
  consumer.finish();
  EXPECT_EQ(read_text_file(path, 100), "1\n2\n3,4,5\n");
  options.header = {"a"};
  EXPECT_THAT(error_of([&] { CsvConsumer refused(path, options); }),
              HasSubstr("rows of unequal length have no header"));
}

TEST(CsvConsumer, HeaderAndDTypes) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.csv";
  CsvConsumer consumer(path, {{"plain", "with \"quotes\""}, ';'});
  consumer.push(Tensor::of<std::int64_t>({1, 2}, {-5, 1LL << 60}));
  consumer.push(Tensor::of<bool>({1, 2}, {true, false}));
  consumer.push(Tensor::of<std::int8_t>({1, 2}, {std::int8_t{-1}, std::int8_t{65}}));
  consumer.push(Tensor::of<double>({1, 2}, {0.1, 1e300}));
  consumer.push(Tensor::empty({0, 2}));
  consumer.finish();
  EXPECT_EQ(read_text_file(path),
            "plain;\"with \"\"quotes\"\"\"\n-5;1152921504606846976\n1;0\n-1;65\n0.1;1e+300\n");
}

TEST(CsvConsumer, WithoutFinishNothingChanges) {
  const TemporaryFolder folder;
  const auto path = folder.write("out.csv", "old\n");
  const LogCapture log;
  {
    CsvConsumer consumer(path);
    consumer.push(Tensor::zeros({3, 1}));
  }
  EXPECT_EQ(read_text_file(path), "old\n");
  EXPECT_EQ(files_in(folder), 1);
  ASSERT_EQ(log.lines().size(), 1);
  EXPECT_THAT(log.lines()[0], HasSubstr("3 rows for"));
}

TEST(CsvConsumer, LongOutputIsWrittenAsItComes) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.csv";
  CsvConsumer consumer(path);
  Tensor batch = Tensor::zeros({1000, 100});
  for (int i = 0; i < 20; ++i) consumer.push(batch);  // 4 MB of text
  consumer.finish();
  EXPECT_EQ(CsvProducer(path).row_count(), 20000);
}

TEST(CsvConsumer, Refusals) {
  const TemporaryFolder folder;
  EXPECT_NE(error_of([&] { CsvConsumer(folder.path() / "no folder" / "out.csv"); }), "no error");
  CsvConsumer consumer(folder.path() / "out.csv");
  consumer.push(Tensor::zeros({1, 2}));
  EXPECT_THAT(error_of([&] {
                consumer.push(Tensor::zeros({1, 3}));
              }),
              HasSubstr("a row of 3 values where the rows have 2"));
  EXPECT_THAT(error_of([&] {
                consumer.push(Tensor::zeros({1, 2}, DType::kBFloat16));
              }),
              HasSubstr("cannot take bfloat16"));
  EXPECT_NE(error_of([&] { consumer.push(Tensor::zeros({})); }), "no error");
  EXPECT_NE(error_of([&] { consumer.push(Tensor()); }), "no error");
  EXPECT_EQ(consumer.rows(), 1);
  consumer.finish();
  EXPECT_THAT(error_of([&] { consumer.push(Tensor::zeros({1, 2})); }), HasSubstr("is finished"));
}

TEST(MemoryConsumer, CollectsUpToItsLimit) {
  MemoryConsumer consumer(24);
  consumer.push(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  consumer.push(Tensor::of<float>({1, 2}, {5, 6}));
  EXPECT_THAT(error_of([&] {
                consumer.push(Tensor::zeros({1, 1}, DType::kInt8));
              }),
              HasSubstr("24 bytes kept, 1 more pushed, the limit is 24"));
  EXPECT_EQ(consumer.batches().size(), 2);
  EXPECT_EQ(consumer.rows().shape(), (Shape{3, 2}));
  EXPECT_EQ(consumer.rows().values<float>()[5], 6);
  consumer.clear();
  EXPECT_THAT(consumer.batches(), IsEmpty());
  EXPECT_NO_THROW(consumer.push(Tensor::zeros({6})));
  EXPECT_THROW(consumer.push(Tensor()), Error);
}

}  // namespace
}  // namespace harmonics::inline in_data
