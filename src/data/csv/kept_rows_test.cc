#include <harmonics/data/kept_rows.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/random.h>
#include <harmonics/data/csv_consumer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_data {
namespace {

using ::testing::HasSubstr;

std::string whole(const KeptRows& rows) {
  std::string text;
  rows.read([&](ByteSpan piece) { text += text_of(piece); });
  return text;
}

std::string batch_text(std::int64_t number) { return format("{},row\n", number); }

std::string expected(std::int64_t batches) {
  std::string text;
  for (std::int64_t i = 0; i < batches; ++i) text += batch_text(i);
  return text;
}

void keep(const std::filesystem::path& folder, std::int64_t from, std::int64_t to) {
  KeptRows rows(folder, "out", from);
  for (std::int64_t i = from; i < to; ++i) rows.add(batch_text(i));
}

TEST(KeptRows, GoOnBehindWhatIsThere) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "results";
  EXPECT_EQ(kept_batches(place, "out"), 0);
  keep(place, 0, 5);
  EXPECT_EQ(kept_batches(place, "out"), 5);
  keep(place, 3, 9);  // Another output had only three: the rest comes again.
  EXPECT_EQ(kept_batches(place, "out"), 9);
  KeptRows rows(place, "out", 9);
  EXPECT_EQ(whole(rows), expected(9));
  rows.finish();
}

TEST(KeptRows, ABatchThatIsNotWholeDoesNotCount) {
  const TemporaryFolder folder;
  Random random(7, "kept");
  for (int round = 0; round < 200; ++round) {
    keep(folder.path(), 0, 6);
    // A crash may lose the end of either file, or leave zeros in place of what was not written.
    const auto file = folder.path() / (random.below(2) == 0 ? "out.rows" : "out.marks");
    const std::uint64_t size = std::filesystem::file_size(file);
    const std::uint64_t left = random.below(size + 1);
    std::filesystem::resize_file(file, left);
    if (random.below(2) == 0) std::filesystem::resize_file(file, size);
    const std::int64_t kept = kept_batches(folder.path(), "out");
    ASSERT_EQ(kept < 6, left < size) << file << " cut to " << left;
    keep(folder.path(), kept, 8);
    ASSERT_EQ(kept_batches(folder.path(), "out"), 8);
    ASSERT_EQ(whole(KeptRows(folder.path(), "out", 8)), expected(8));
  }
}

TEST(KeptRows, TextThatWasChangedEndsWhatCounts) {
  const TemporaryFolder folder;
  keep(folder.path(), 0, 6);
  std::fstream(folder.path() / "out.rows", std::ios::in | std::ios::out).seekp(2 * 6) << 'x';
  EXPECT_EQ(kept_batches(folder.path(), "out"), 2);
  EXPECT_THAT(error_of([&] { KeptRows(folder.path(), "out", 4); }), HasSubstr("2 whole batches"));
}

TEST(KeptRows, TwoDoNotWriteTheSame) {
  const TemporaryFolder folder;
  const KeptRows first(folder.path(), "out", 0);
  EXPECT_THAT(error_of([&] { KeptRows(folder.path(), "out", 0); }),
              HasSubstr("another process still writes"));
  const KeptRows other(folder.path(), "second", 0);
}

TEST(KeptRows, AConsumerThatGoesOnMakesTheFileOfOneThatDidNotStop) {
  const TemporaryFolder folder;
  const auto batch = [](float from) { return Tensor::of<float>({2, 2}, {from, 0.1F, 3, -from}); };
  CsvConsumer plain(folder.path() / "plain.csv");
  for (const float from : {1.F, 2.F, 3.F}) plain.push(batch(from));
  plain.finish();
  const auto file = folder.path() / "out.csv";
  const auto consumer = [&](std::int64_t delivered) {
    CsvConsumerOptions options;
    options.kept = std::make_shared<KeptRows>(folder.path(), "out", delivered);
    return std::make_unique<CsvConsumer>(file, options);
  };
  auto first = consumer(0);
  first->push(batch(1));
  first->push(batch(2));
  first.reset();  // As if it had been killed.
  EXPECT_FALSE(std::filesystem::exists(file));
  const auto second = consumer(kept_batches(folder.path(), "out"));
  second->push(batch(3));
  second->finish();
  EXPECT_EQ(read_text_file(file), read_text_file(folder.path() / "plain.csv"));
}

}  // namespace
}  // namespace harmonics::inline in_data
