#include <harmonics/data/csv_producer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <harmonics/data/batch_producer.h>
#include <harmonics/data/label_producer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvProducerTest : public ::testing::Test {
 protected:
  std::shared_ptr<CsvProducer> open(const std::string& text, CsvOptions options = {}) {
    return std::make_shared<CsvProducer>(folder_.write("data.csv", text), std::move(options));
  }

  template <typename T = float>
  std::vector<std::vector<T>> rows(const std::string& text, CsvOptions options = {}) {
    options.dtype = DTypeOf<T>::value;
    const auto producer = open(text, std::move(options));
    std::vector<std::vector<T>> out;
    while (const auto sample = producer->next()) {
      out.emplace_back(sample->values<T>().begin(), sample->values<T>().end());
    }
    EXPECT_EQ(std::ssize(out), producer->row_count());
    return out;
  }

  std::string error(const std::string& text, CsvOptions options = {}) {
    return error_of([&] {
      const auto producer = open(text, std::move(options));
      while (producer->next()) {
      }
    });
  }

  TemporaryFolder folder_;
};

using Rows = std::vector<std::vector<float>>;

TEST_F(CsvProducerTest, ReadsAllColumnsAsFloat32) {
  const auto producer = open("1,2,3\n4,5,6\n");
  EXPECT_EQ(producer->sample_spec(), (TensorSpec{{3}, DType::kFloat32}));
  EXPECT_EQ(producer->size(), 2);
  EXPECT_TRUE(producer->header().empty());
  EXPECT_EQ(rows("1,2,3\n4,5,6\n"), (Rows{{1, 2, 3}, {4, 5, 6}}));
}

TEST_F(CsvProducerTest, LineEndsBlankLinesAndSpaces) {
  EXPECT_EQ(rows("1,2\r\n3,4\r\n"), (Rows{{1, 2}, {3, 4}}));
  EXPECT_EQ(rows("1,2\n3,4"), (Rows{{1, 2}, {3, 4}}));
  EXPECT_EQ(rows("1,2\r\n3,4\r"), (Rows{{1, 2}, {3, 4}}));
  EXPECT_EQ(rows("\n\r\n  \n1,2\n\n \t \r\n3,4\n\n\n"), (Rows{{1, 2}, {3, 4}}));
  EXPECT_EQ(rows(" 1 ,\t2\n3 , 4 \n"), (Rows{{1, 2}, {3, 4}}));
  EXPECT_EQ(rows("\xEF\xBB\xBF"
                 "1,2\n"),
            (Rows{{1, 2}}));
}

TEST_F(CsvProducerTest, Quotes) {
  EXPECT_EQ(rows("\"1\",2\n3,\"4\"\n"), (Rows{{1, 2}, {3, 4}}));
  EXPECT_EQ(rows(" \" 1 \" ,2\r\n"), (Rows{{1, 2}}));
  CsvOptions numbers;
  numbers.columns = "1";
  numbers.header = CsvHeader::kNo;
  EXPECT_EQ(rows("\"a,\"\"b\"\"\nc\",1\n\"\",2\n\"\"\"\",3\n", numbers), (Rows{{1}, {2}, {3}}));
}

TEST_F(CsvProducerTest, Header) {
  const std::string named = "\"the width\",height\n1,2\n";
  EXPECT_THAT(open(named)->header(), ElementsAre("the width", "height"));
  EXPECT_EQ(rows(named), (Rows{{1, 2}}));
  CsvOptions forced;
  forced.header = CsvHeader::kYes;
  EXPECT_EQ(rows("1,2\n3,4\n", forced), (Rows{{3, 4}}));
  forced.header = CsvHeader::kNo;
  EXPECT_THAT(error(named, forced), HasSubstr("line 1, column 0: 'the width' is not a number"));
  EXPECT_THAT(error("1,x\n3,4\n"), HasSubstr("line 1, column 1: 'x' is not a number"));
  // Only the wanted columns count: names in another one do not make the first row a header.
  CsvOptions second;
  second.columns = "1";
  EXPECT_EQ(rows("iris,1\nrose,2\n", second), (Rows{{1}, {2}}));
}

TEST_F(CsvProducerTest, Columns) {
  const std::string text = "a,b,c,d\n1,2,3,4\n";
  const auto selected = [&](std::string columns) {
    CsvOptions options;
    options.columns = std::move(columns);
    return rows(text, options)[0];
  };
  EXPECT_THAT(selected("0-3"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(selected("3,0-1"), ElementsAre(4, 1, 2));
  EXPECT_THAT(selected("d, a"), ElementsAre(4, 1));
  EXPECT_THAT(selected("b,2-3"), ElementsAre(2, 3, 4));
  EXPECT_THAT(selected("2"), ElementsAre(3));
}

TEST_F(CsvProducerTest, ColumnsThatAreNotThere) {
  const auto refusal = [&](std::string columns, CsvHeader header = CsvHeader::kAuto) {
    CsvOptions options;
    options.columns = std::move(columns);
    options.header = header;
    return error("a,b\n1,2\n", options);
  };
  EXPECT_THAT(refusal("2"), HasSubstr("no column 2: the file has columns 0 to 1"));
  EXPECT_THAT(refusal("z"), HasSubstr("no column 'z': the header has a, b"));
  EXPECT_THAT(refusal("a", CsvHeader::kNo), HasSubstr("the file has no header"));
  EXPECT_THAT(refusal("1-0"), HasSubstr("run backwards"));
  EXPECT_THAT(refusal("0,a"), HasSubstr("selected twice"));
  EXPECT_THAT(refusal("0,"), HasSubstr("no column ''"));
  CsvOptions twice;
  twice.columns = "a";
  EXPECT_THAT(error("a,a\n1,2\n", twice), HasSubstr("several columns are named 'a'"));
}

TEST_F(CsvProducerTest, EveryDType) {
  using Integers = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(rows<std::int64_t>("9007199254740993,-5\n"), (Integers{{9007199254740993, -5}}));
  EXPECT_EQ(rows<std::int32_t>("-2147483648\n")[0][0], INT32_MIN);
  EXPECT_EQ(rows<std::int8_t>("-128,127\n")[0], (std::vector<std::int8_t>{-128, 127}));
  EXPECT_EQ(rows<std::uint8_t>("0,255\n")[0], (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(rows<bool>("true,0,1,FALSE\n")[0], (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(rows<double>("0.1,1e-3\n")[0], (std::vector<double>{0.1, 1e-3}));
  CsvOptions lenient;
  lenient.allow_nan = true;
  const auto special = rows("nan,inf,-inf\n1,2,3\n", lenient)[0];
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], INFINITY);
  EXPECT_EQ(special[2], -INFINITY);
}

TEST_F(CsvProducerTest, WhatIsNotANumberIsNamedUnlessItIsAccepted) {
  EXPECT_THAT(error("a,b\n1,2\n3,NaN\n"), HasSubstr("data.csv' line 3, column 1 ('b'): 'NaN'"));
  EXPECT_THAT(error("1,2\n3,-nan\n"), HasSubstr("nan=allow"));
  CsvOptions scaled;
  scaled.scale = 0.5;
  EXPECT_THAT(error("1,2\nnan,4\n", scaled), HasSubstr("line 2, column 0"));
  CsvOptions elsewhere;
  elsewhere.columns = "0";
  EXPECT_EQ(error("1,nan\n2,nan\n", elsewhere), "no error");
}

TEST_F(CsvProducerTest, APipeIsRefusedAtOnce) {
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { CsvProducer made(pipe); }), HasSubstr("not a regular file"));
}

TEST_F(CsvProducerTest, LabelsThatAreNoClassesAreNamed) {
  CsvOptions labels;
  labels.columns = "label";
  labels.dtype = DType::kInt64;
  const auto read = [&](const std::string& text) {
    LabelProducer producer(open("x,label\n" + text, labels), 3, "output");
    return error_of([&] {
      while (producer.next()) {
      }
    });
  };
  EXPECT_EQ(read("0,0\n0,2\n0,-100\n"), "no error");
  EXPECT_THAT(read("0,0\n0,3\n"), HasSubstr("data.csv' line 3, column 1 ('label'): the label 3 is "
                                            "none of the 3 classes of 'output' (0 to 2)"));
  EXPECT_THAT(read("0,-1\n"), HasSubstr("the label -1"));
  EXPECT_THAT(error_of([&] { LabelProducer(open("1\n"), 3, "output"); }), HasSubstr("float32"));
}

TEST_F(CsvProducerTest, ScaleShapeAndDelimiter) {
  CsvOptions options;
  options.scale = 0.0625;
  options.shape = {1, 2, 2};
  options.delimiter = ';';
  const auto producer = open("16;8;4;0\n", options);
  EXPECT_EQ(producer->sample_spec().shape, (Shape{1, 2, 2}));
  EXPECT_THAT(producer->next()->values<float>(), ElementsAre(1.0F, 0.5F, 0.25F, 0.0F));
  CsvOptions tab;
  tab.delimiter = '\t';
  EXPECT_EQ(rows("1\t 2\n", tab), (Rows{{1, 2}}));
}

TEST_F(CsvProducerTest, OptionsThatCannotBe) {
  CsvOptions options;
  options.shape = {3};
  EXPECT_THAT(error("1,2\n", options), HasSubstr("2 columns cannot be viewed as shape {3}"));
  options = {};
  options.dtype = DType::kInt64;
  options.scale = 2;
  EXPECT_THAT(error("1\n", options), HasSubstr("a scale needs a float dtype"));
  options = {};
  options.dtype = DType::kFloat16;
  EXPECT_THAT(error("1\n", options), HasSubstr("cannot be read as float16"));
  options = {};
  options.delimiter = '.';
  EXPECT_THAT(error("1\n", options), HasSubstr("'.' cannot be a delimiter"));
  options = {};
  options.scale = INFINITY;
  EXPECT_THAT(error("1\n", options), HasSubstr("not a finite number"));
}

TEST_F(CsvProducerTest, MalformedInputSaysWhere) {
  EXPECT_THAT(error("1,2\n\n3,x\n"), HasSubstr("data.csv' line 3, column 1: 'x' is not a number"));
  EXPECT_THAT(error("1,2\n3,\n"), HasSubstr("line 2, column 1: '' is not a number"));
  EXPECT_THAT(error("1,2\n3\n"),
              HasSubstr("line 2, column 0: the row has 1 columns where the first "
                        "row has 2"));
  EXPECT_THAT(error("1,2\n3,4,5\n"),
              HasSubstr("line 2, column 1: the row has more than 2 columns"));
  EXPECT_THAT(error("w,h\n1,2\n3,?\n"), HasSubstr("line 3, column 1 ('h'): '?' is not a number"));
  EXPECT_THAT(error("1,2\n\"3,4\n"), HasSubstr("line 2: a quote is opened in this row and never"));
  EXPECT_THAT(error("1,2\n\"3\"x,4\n"), HasSubstr("line 2, column 0: 'x' follows a closing quote"));
  EXPECT_THAT(error("1,2\n3\"\",4\n"), HasSubstr("line 2, column 0: '3\"' holds a quote"));
  EXPECT_THAT(error("1,2\n3,infinity\n"), HasSubstr("'infinity' is not a number"));
  EXPECT_THAT(error("1\n1e39\n"),
              HasSubstr("line 2, column 0: '1e39' is out of range for float32"));
  CsvOptions integers;
  integers.dtype = DType::kUInt8;
  EXPECT_THAT(error("1\n256\n", integers),
              HasSubstr("line 2, column 0: '256' is out of range for uint8"));
  EXPECT_THAT(error("1\n1.5\n", integers), HasSubstr("'1.5' is not an integer"));
  EXPECT_THAT(error("1\n" + std::string(100, 'y') + "\x01\n"), HasSubstr("yyy…' is not a number"));
}

TEST_F(CsvProducerTest, FilesWithoutRows) {
  EXPECT_THAT(error(""), HasSubstr("data.csv' is empty"));
  EXPECT_THAT(error("\n \n"), HasSubstr("data.csv' is empty"));
  EXPECT_THAT(error("a,b\n"), HasSubstr("holds a header and no rows"));
  EXPECT_THAT(error_of([&] { CsvProducer{folder_.path() / "none.csv"}; }), HasSubstr("none.csv"));
  EXPECT_THAT(error_of([&] { CsvProducer{folder_.path()}; }), HasSubstr("not a regular file"));
}

TEST_F(CsvProducerTest, AnErrorLeavesTheProducerWhereItWas) {
  const auto producer = open("1\nx\n3\n");
  EXPECT_EQ(producer->next()->values<float>()[0], 1);
  EXPECT_THROW(static_cast<void>(producer->next()), Error);
  EXPECT_EQ(producer->position().delivered, 1);
  EXPECT_THROW(static_cast<void>(producer->next()), Error);
  producer->skip(1);
  EXPECT_EQ(producer->next()->values<float>()[0], 3);
}

TEST_F(CsvProducerTest, AFileThatShrinksIsAnError) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "1234567\n";  // past any block that is read ahead
  const auto producer = open(text);
  ASSERT_EQ(producer->row_count(), 200000);
  std::filesystem::resize_file(folder_.path() / "data.csv", 100);
  Tensor sample = Tensor::empty({1});
  const std::int64_t last = 199999;
  EXPECT_THAT(error_of([&] { producer->read(std::span(&last, 1), sample.mutable_bytes()); }),
              HasSubstr("cut off while it was read"));
  EXPECT_THAT(error_of([&] {
                while (producer->next()) {
                }
              }),
              HasSubstr("cut off while it was read"));
}

TEST_F(CsvProducerTest, AFileThatChangesUnderTheIndexIsAnError) {
  const auto producer = open("11,22\n33,44\n55,66\n");
  ASSERT_EQ(producer->row_count(), 3);
  std::filesystem::resize_file(folder_.path() / "data.csv", 0);
  // The same inode, the same length, line ends elsewhere.
  FILE* file = std::fopen((folder_.path() / "data.csv").c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("1,22\n333,44\n55,666", file);
  std::fclose(file);
  EXPECT_NE(error_of([&] {
              while (producer->next()) {
              }
            }),
            "");
}

TEST_F(CsvProducerTest, SeveralThreadsReadAtOnce) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += format("{}\n", i);
  const auto producer = open(text);  // the rows are not known yet: the threads meet there
  std::array<bool, 4> good{};
  {
    std::vector<std::jthread> threads;
    for (bool& mine : good) {
      threads.emplace_back([&producer, &mine] {
        std::vector<std::int64_t> numbers(2000);
        std::iota(numbers.rbegin(), numbers.rend(), 0);
        std::vector<float> values(2000);
        producer->read(numbers, std::as_writable_bytes(std::span(values)));
        mine = std::ranges::equal(values, numbers, {}, {},
                                  [](std::int64_t n) { return static_cast<float>(n); });
      });
    }
  }
  EXPECT_THAT(good, ::testing::Each(true));
}

TEST_F(CsvProducerTest, RowsAcrossBlocks) {
  std::string text;
  std::vector<std::vector<float>> expected;
  for (int i = 0; text.size() < (std::size_t{3} << 20); ++i) {
    const char* const quote = i % 7 == 0 ? "\"" : "";
    text += format("{}{}{},{}.5\n", quote, i, quote, i % 100);
    expected.push_back({static_cast<float>(i), static_cast<float>(i % 100) + 0.5F});
  }
  EXPECT_EQ(rows(text), expected);
}

TEST_F(CsvProducerTest, LongQuotedFieldsAcrossBlocks) {
  // Rows of about 100 KiB with line ends in quotes, so that every block ends inside one.
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += format("{},\"{}\n\"\"x\"\"\n\"\n", i, std::string(100000 + 977 * i, 'n'));
  }
  CsvOptions options;
  options.columns = "0";
  const auto read = rows(text, options);
  ASSERT_EQ(read.size(), 40);
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i][0], static_cast<float>(i));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A process of its own that may take 16 MiB more than it has reads a file of 64 MiB.
TEST_F(CsvProducerTest, AFileLargerThanTheMemoryThatIsLeft) {
  std::string row(std::size_t{64} << 10, '7');
  for (std::size_t i = 7; i < row.size(); i += 8) row[i] = ',';
  row.back() = '\n';
  const std::filesystem::path path = folder_.path() / "large.csv";
  {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 1024; ++i) file << row;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{16} << 20);
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    int read = 0;
    try {
      CsvProducer producer(path);
      for (; const auto sample = producer.next(); ++read) {
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(read == 1024 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

TEST_F(CsvProducerTest, RowLimit) {
  CsvOptions options;
  options.row_limit = 3;
  EXPECT_EQ(rows("1\n2\n3\n", options).size(), 3);
  EXPECT_THAT(error("1\n2\n3\n4\n", options), HasSubstr("more rows than the limit of 3"));
}

TEST_F(CsvProducerTest, ColumnLimit) {
  std::string text;
  for (std::size_t i = 0; i < kMaxCsvColumns; ++i) text += "1,";
  text.back() = '\n';
  EXPECT_EQ(open(text)->sample_spec().shape[0], static_cast<std::int64_t>(kMaxCsvColumns));
  text.back() = ',';
  EXPECT_THAT(error(text + "1\n"), HasSubstr("more than 1048576 columns"));
}

TEST_F(CsvProducerTest, RowBytesLimit) {
  const auto row = [](std::size_t bytes) { return "1" + std::string(bytes - 2, ' ') + "\n"; };
  EXPECT_EQ(rows("1\n" + row(kMaxCsvRowBytes)).size(), 2);
  EXPECT_THAT(error("1\n" + row(kMaxCsvRowBytes + 1)),
              HasSubstr("line 2: the row is longer than the limit of 16777216 bytes"));
  EXPECT_THAT(error("1\n\"" + std::string(3 * kMaxCsvRowBytes, 'x')),
              HasSubstr("longer than the limit"));
}

TEST_F(CsvProducerTest, TheDigitsOfTheExamples) {
  const char* source = std::getenv("HARMONICS_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "HARMONICS_SOURCE_DIR is not set";
  const auto path = std::filesystem::path(source) / "examples" / "data" / "digits.csv";
  CsvOptions labels;
  labels.columns = "64";
  labels.dtype = DType::kInt64;
  const auto producer = std::make_shared<CsvProducer>(path, labels);
  ASSERT_EQ(producer->row_count(), 1797);
  std::vector<int> counts(10);
  while (const auto sample = producer->next()) ++counts.at(sample->values<std::int64_t>()[0]);
  EXPECT_THAT(counts, ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
}

}  // namespace
}  // namespace harmonics::inline in_data
