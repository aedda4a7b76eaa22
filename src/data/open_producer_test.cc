#include <harmonics/data/open_producer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include <harmonics/data/synthetic_producer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

class OpenProducerTest : public ::testing::Test {
 protected:
  IndexedProducerPtr open(const std::string& spec) { return open_producer(spec, folder_.path()); }
  std::string error(const std::string& spec) {
    return error_of([&] { static_cast<void>(open(spec)); });
  }

  TemporaryFolder folder_;
};

TEST_F(OpenProducerTest, Csv) {
  folder_.write("a.csv", "w;h;x;y\n16;8;4;1\n");
  const auto inputs = open("csv:a.csv?columns=w,h,2,3&scale=0.0625&shape=1x2x2&delimiter=;");
  EXPECT_EQ(inputs->sample_spec(), (TensorSpec{{1, 2, 2}, DType::kFloat32}));
  EXPECT_THAT(inputs->next()->values<float>(), ElementsAre(1, 0.5F, 0.25F, 0.0625F));
  const auto labels = open("csv:a.csv?columns=3&dtype=int64&header=yes&delimiter=%3b");
  EXPECT_THAT(labels->next()->values<std::int64_t>(), ElementsAre(1));
  folder_.write("t.csv", "1\t2\n");
  EXPECT_EQ(open("csv:t.csv?delimiter=tab&header=no")->row_count(), 1);
  // An absolute path is not relative to anything.
  EXPECT_EQ(open("csv:" + (folder_.path() / "t.csv").string() + "?delimiter=tab")->row_count(), 1);
}

TEST_F(OpenProducerTest, Idx) {
  folder_.write("a.idx", std::string("\0\0\x08\x01\0\0\0\x02\x05\xff", 10));
  EXPECT_THAT(open("idx:a.idx?dtype=int64")->next()->values<std::int64_t>(), ElementsAre(5));
  EXPECT_THAT(open("idx:a.idx?scale=0.5")->next()->values<float>(), ElementsAre(2.5F));
}

TEST_F(OpenProducerTest, Synthetic) {
  const auto images = open("synthetic:?shape=3x4x4&size=10&kind=normal&seed=3");
  EXPECT_EQ(images->sample_spec(), (TensorSpec{{3, 4, 4}, DType::kFloat32}));
  EXPECT_EQ(images->row_count(), 10);
  const auto labels = open("synthetic:?size=100&kind=integers&below=7&dtype=uint8");
  std::vector<int> seen(7);
  while (const auto sample = labels->next()) ++seen.at(sample->values<std::uint8_t>()[0]);
  EXPECT_THAT(seen, Each(::testing::Gt(0)));
  for (const char* ids : {"synthetic:?size=50&shape=4&below=7", "synthetic:?size=50&dtype=int64",
                          "synthetic:?size=50&below=7&dtype=int64"}) {
    const auto made = open(ids);
    EXPECT_EQ(made->sample_spec().dtype, DType::kInt64) << ids;
    while (const auto sample = made->next()) {
      for (const std::int64_t id : sample->values<std::int64_t>()) EXPECT_LT(id, 7) << ids;
    }
  }
  const auto one_hot = open("synthetic:?size=50&kind=one_hot&below=10");
  EXPECT_EQ(one_hot->sample_spec(), (TensorSpec{{10}, DType::kFloat32}));
  std::vector<int> hot(10);
  while (const auto sample = one_hot->next()) {
    const auto row = sample->values<float>();
    EXPECT_EQ(std::ranges::count(row, 1.0F), 1);
    EXPECT_EQ(std::ranges::count(row, 0.0F), 9);
    ++hot[static_cast<std::size_t>(std::ranges::find(row, 1.0F) - row.begin())];
  }
  EXPECT_GT(std::ranges::count_if(hot, [](int count) { return count > 0; }), 5);
  EXPECT_THAT(error("synthetic:?size=1&kind=one_hot&below=3&shape=2x4"),
              HasSubstr("one-hot rows of 3 classes"));
  const auto uniform = open("synthetic:?size=2&shape=500");
  EXPECT_THAT(uniform->next()->values<float>(),
              Each(::testing::AllOf(Lt(1.0F), ::testing::Ge(0.0F))));
  EXPECT_FALSE(std::ranges::equal(open("synthetic:?size=1&shape=9&seed=1")->next()->bytes(),
                                  open("synthetic:?size=1&shape=9&seed=2")->next()->bytes()));
}

TEST_F(OpenProducerTest, RefusalsListWhatThereIs) {
  EXPECT_THAT(error("orc:a"), HasSubstr("arrow, csv, idx, npy, parquet, synthetic"));
  EXPECT_THAT(error("a.csv"), HasSubstr("arrow, csv, idx, npy, parquet, synthetic"));
  EXPECT_THAT(error(""), HasSubstr("arrow, csv, idx, npy, parquet, synthetic"));
  EXPECT_THAT(
      error("csv:a.csv?colums=1"),
      HasSubstr("no setting 'colums'; there are columns, dtype, scale, shape, header, delimiter"));
  EXPECT_THAT(error("idx:a?columns=1"), HasSubstr("there are dtype, scale"));
  EXPECT_THAT(error("synthetic:?size=1&x=2"), HasSubstr("shape, size, kind, below, dtype, seed"));
  EXPECT_THAT(error("csv:a.csv?dtype=float"), HasSubstr("dtype=float must be float32, float64"));
  EXPECT_THAT(error("csv:a.csv?header=maybe"),
              HasSubstr("header=maybe must be one of auto, yes, no"));
  EXPECT_THAT(error("csv:a.csv?shape=8*8"),
              HasSubstr("shape=8*8 must be axis lengths such as 1x8x8"));
  EXPECT_THAT(error("csv:a.csv?shape=0"), HasSubstr("axis lengths"));
  EXPECT_THAT(error("csv:a.csv?scale=x"), HasSubstr("scale=x must be a number"));
  EXPECT_THAT(error("csv:a.csv?delimiter=ab"), HasSubstr("one character"));
  EXPECT_THAT(error("csv:a.csv?scale=1&scale=2"), HasSubstr("sets 'scale' twice"));
  EXPECT_THAT(error("csv:a.csv?scale"), HasSubstr("'scale' has no '='"));
  EXPECT_THAT(error("csv:"), HasSubstr("names no file"));
  EXPECT_THAT(error("csv:missing.csv"), HasSubstr("missing.csv"));
  EXPECT_THAT(error("synthetic:"), HasSubstr("needs a size"));
  EXPECT_THAT(error("synthetic:?size=-1"), HasSubstr("cannot have -1 samples"));
  EXPECT_THAT(error("synthetic:?size=1&kind=integers&below=300&dtype=uint8"),
              HasSubstr("1 to 256"));
  EXPECT_THAT(error("synthetic:?size=1&kind=uniform&dtype=int64"),
              HasSubstr("use float32 or float64"));
  EXPECT_NE(error("csv:a.csv?shape=99999999999999999999"), "no error");
}

/// A text as a file, of which only so much can be read.
class TextBytes final : public ByteSource {
 public:
  TextBytes(const std::string& path, std::string text, std::size_t readable)
      : ByteSource(path, text.size()), text_(std::move(text)), readable_(readable) {}
  void read_at(std::uint64_t offset, std::span<char> out) const override {
    if (offset + out.size() > readable_) fail(ErrorCode::kDataLoss, "'{}' is gone", path());
    text_.copy(out.data(), out.size(), offset);
  }

 private:
  std::string text_;
  std::size_t readable_;
};

TEST_F(OpenProducerTest, FilesThatTheCallerReads) {
  const std::string rows = "1,2\n3,4\n5,6\n";
  std::string asked;
  const auto opened = open_producer("csv:far://host/a.csv?columns=1", [&](const auto& path) {
    asked = path;
    return std::make_shared<TextBytes>(path, rows, rows.size());
  });
  EXPECT_EQ(asked, "far://host/a.csv");
  EXPECT_EQ(opened->row_count(), 3);
  EXPECT_THAT(opened->next()->values<float>(), ElementsAre(2));
  const std::string labels("\0\0\x08\x01\0\0\0\x02\x05\x07", 10);
  const auto digits = open_producer("idx:far://host/b?dtype=int64", [&](const auto& path) {
    return std::make_shared<TextBytes>(path, labels, labels.size());
  });
  EXPECT_THAT(digits->next()->values<std::int64_t>(), ElementsAre(5));
  EXPECT_THAT(error_of([&] {
                static_cast<void>(open_producer("csv:far://host/c.csv", [&](const auto& path) {
                  return std::make_shared<TextBytes>(path, rows, 4);
                }));
              }),
              HasSubstr("'far://host/c.csv' is gone"));
}

// This program does not link the part that reads them.
TEST_F(OpenProducerTest, ColumnsNeedTheirPart) {
  for (const char* spec : {"parquet:a.parquet?columns=x", "arrow:a.arrow"}) {
    expect_error(ErrorCode::kUnimplemented, "HARMONICS_WITH_ARROW=ON",
                 [&] { static_cast<void>(open_producer(spec)); });
  }
}

}  // namespace
}  // namespace harmonics::inline in_data
