// Parquet and Arrow files as samples: what they hold comes out, and what cannot be a sample is
// said.
#include "arrow_producer.h"

#include <arrow/extension/fixed_shape_tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/data/open_producer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "arrow_files_testing.h"

namespace harmonics::inline in_data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<arrow::Array> floats(const std::vector<std::optional<float>>& values) {
  return array_of<arrow::FloatBuilder, float>(values);
}
std::shared_ptr<arrow::Array> longs(const std::vector<std::optional<std::int64_t>>& values) {
  return array_of<arrow::Int64Builder, std::int64_t>(values);
}
std::shared_ptr<arrow::Array> pairs(const std::shared_ptr<arrow::Array>& values) {
  return must(arrow::FixedSizeListArray::FromArrays(values, 2));
}

struct FormatCase {
  std::string scheme;
  ColumnFormat format;
};

class Columns : public testing::TestWithParam<FormatCase> {
 protected:
  // Opens the table, two rows a group.
  IndexedProducerPtr open(const std::shared_ptr<arrow::Table>& table,
                          const std::string& settings = "") {
    folder_.write("rows.file", file_of(*table, GetParam().format, 2));
    return open_producer(GetParam().scheme + ":rows.file" + settings, folder_.path());
  }

  // What reading everything says.
  std::string refusal(const std::shared_ptr<arrow::Table>& table,
                      const std::string& settings = "") {
    return error_of([&] {
      const auto producer = open(table, settings);
      while (producer->next()) {
      }
    });
  }

  static std::vector<float> all(Producer& producer) {
    std::vector<float> values;
    while (const auto sample = producer.next()) {
      for (const float value : sample->values<float>()) values.push_back(value);
    }
    return values;
  }

  TemporaryFolder folder_;
};

std::string name_of(const testing::TestParamInfo<FormatCase>& each) {
  constexpr const char* kNames[] = {"Parquet", "ArrowFile", "ArrowStream"};
  return kNames[static_cast<int>(each.param.format)];
}

INSTANTIATE_TEST_SUITE_P(Formats, Columns,
                         testing::Values(FormatCase{"parquet", ColumnFormat::kParquet},
                                         FormatCase{"arrow", ColumnFormat::kArrowFile},
                                         FormatCase{"arrow", ColumnFormat::kArrowStream}),
                         name_of);

/// What Arrow cannot write to Parquet.
class ArrowColumns : public Columns {};
INSTANTIATE_TEST_SUITE_P(Formats, ArrowColumns,
                         testing::Values(FormatCase{"arrow", ColumnFormat::kArrowFile},
                                         FormatCase{"arrow", ColumnFormat::kArrowStream}),
                         name_of);

TEST_P(Columns, NumbersInTheOrderOfTheSelection) {
  const auto table = table_of({{"a", floats({1, 2, 3, 4, 5})},
                               {"b", floats({10, 20, 30, 40, 50})},
                               {"c", longs({7, 8, 9, 10, 11})}});
  const auto producer = open(table, "?columns=b,a");
  EXPECT_EQ(producer->sample_spec(), (TensorSpec{{2}, DType::kFloat32}));
  EXPECT_EQ(producer->row_count(), 5);
  EXPECT_THAT(all(*producer), ElementsAre(10, 1, 20, 2, 30, 3, 40, 4, 50, 5));
  const auto labels = open(table, "?columns=c");
  EXPECT_EQ(labels->sample_spec(), (TensorSpec{{1}, DType::kInt64}));
  EXPECT_EQ(labels->next()->values<std::int64_t>()[0], 7);
  const auto mixed = open(table, "?dtype=float32&scale=2&shape=1x3");
  EXPECT_EQ(mixed->sample_spec(), (TensorSpec{{1, 3}, DType::kFloat32}));
  EXPECT_THAT(mixed->next()->values<float>(), ElementsAre(2, 20, 14));
}

TEST_P(Columns, RowsOfAnyOrderOverGroups) {
  const auto producer = open(table_of({{"a", longs({0, 1, 2, 3, 4, 5, 6})}}));
  const std::vector<std::int64_t> rows = {6, 0, 5, 0, 2, 3};
  Tensor out = Tensor::empty({6}, DType::kInt64);
  producer->read(rows, out.mutable_bytes());
  EXPECT_THAT(out.values<std::int64_t>(), ElementsAre(6, 0, 5, 0, 2, 3));
}

TEST_P(Columns, ListsAreVectors) {
  const auto table = table_of({{"p", pairs(floats({1, 2, 3, 4, 5, 6}))}, {"n", longs({1, 2, 3})}});
  const auto vectors = open(table, "?columns=p");
  EXPECT_EQ(vectors->sample_spec(), (TensorSpec{{2}, DType::kFloat32}));
  EXPECT_THAT(all(*vectors), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(all(*open(table, "?dtype=float32")), ElementsAre(1, 2, 1, 3, 4, 2, 5, 6, 3));
}

TEST_P(ArrowColumns, ListsWithinLists) {
  const auto table = table_of({{"p", pairs(pairs(floats({1, 2, 3, 4, 5, 6, 7, 8})))}});
  const auto producer = open(table);
  EXPECT_EQ(producer->sample_spec(), (TensorSpec{{2, 2}, DType::kFloat32}));
  EXPECT_THAT(all(*producer), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_P(Columns, ListsOfAnyLengthNeedAShape) {
  arrow::ListBuilder builder(arrow::default_memory_pool(), std::make_shared<arrow::FloatBuilder>());
  auto& values = static_cast<arrow::FloatBuilder&>(*builder.value_builder());
  for (const float length : {2.F, 2.F, 3.F}) {
    must(builder.Append());
    for (float i = 0; i < length; ++i) must(values.Append(i + length));
  }
  const auto table = table_of({{"l", must(builder.Finish())}});
  EXPECT_THAT(refusal(table), HasSubstr("column 'l' holds list<"));
  EXPECT_THAT(refusal(table), HasSubstr("say how long every list is with shape=…"));
  const auto producer = open(table, "?shape=2");
  EXPECT_THAT(producer->next()->values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(refusal(table, "?shape=2"),
              HasSubstr("row 2, column 'l': its list has another length than shape=… says"));
}

TEST_P(Columns, TensorsKeepTheirShape) {
  const auto type = arrow::extension::fixed_shape_tensor(arrow::float32(), {2, 1});
  const auto array = arrow::ExtensionType::WrapArray(type, pairs(floats({1, 2, 3, 4, 5, 6})));
  const auto producer = open(table_of({{"t", array}}));
  EXPECT_EQ(producer->sample_spec(), (TensorSpec{{2, 1}, DType::kFloat32}));
  EXPECT_THAT(all(*producer), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(Columns, EveryKindOfNumber) {
  const auto table =
      table_of({{"d", array_of<arrow::DoubleBuilder, double>({0.5, -1})},
                {"i32", array_of<arrow::Int32Builder, std::int32_t>({-7, 8})},
                {"i16", array_of<arrow::Int16Builder, std::int16_t>({-300, 300})},
                {"i8", array_of<arrow::Int8Builder, std::int8_t>({-128, 127})},
                {"u32", array_of<arrow::UInt32Builder, std::uint32_t>({4'000'000'000U, 0})},
                {"u16", array_of<arrow::UInt16Builder, std::uint16_t>({65535, 0})},
                {"u8", array_of<arrow::UInt8Builder, std::uint8_t>({255, 0})},
                {"b", array_of<arrow::BooleanBuilder, bool>({true, false})}});
  const auto producer = open(table, "?dtype=float64");
  EXPECT_THAT(producer->next()->values<double>(),
              ElementsAre(0.5, -7, -300, -128, 4e9, 65535, 255, 1));
  EXPECT_EQ(open(table, "?columns=b")->sample_spec().dtype, DType::kBool);
  EXPECT_EQ(open(table, "?columns=u32")->sample_spec().dtype, DType::kInt64);
  EXPECT_THAT(refusal(table, "?columns=d&dtype=int64"),
              HasSubstr("row 0, column 'd': a value is no int64"));
  EXPECT_THAT(refusal(table), HasSubstr("column 'd' is float64 and column 'i32' int32: say with "
                                        "dtype=… what both become"));
}

TEST_P(Columns, NullsAndNanAreRefusedWithTheirPlace) {
  const auto nulls = table_of({{"a", floats({1, 2, 3, std::nullopt})}});
  EXPECT_THAT(refusal(nulls), HasSubstr("rows.file' row 3, column 'a': null is no number"));
  const auto inner = table_of({{"p", pairs(floats({1, 2, 3, 4, 5, std::nullopt}))}});
  EXPECT_THAT(refusal(inner), HasSubstr("row 2, column 'p': null is no number"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto odd = table_of({{"b", floats({0, 0, 0})}, {"p", pairs(floats({1, 2, 3, 4, 5, nan}))}});
  EXPECT_THAT(refusal(odd), HasSubstr("row 2, column 'p', element 1: NaN is no number"));
  EXPECT_EQ(all(*open(odd, "?nan=allow")).size(), 9U);
}

TEST_P(Columns, WhatIsNoNumberIsRefused) {
  const auto table = table_of({{"s", array_of<arrow::StringBuilder, std::string>({"x"})},
                               {"u", array_of<arrow::UInt64Builder, std::uint64_t>({1})}});
  EXPECT_THAT(refusal(table, "?columns=s"), HasSubstr("column 's' holds string: only numbers"));
  EXPECT_THAT(refusal(table, "?columns=u"), HasSubstr("column 'u' holds uint64"));
  EXPECT_THAT(refusal(table, "?columns=z"), HasSubstr("there is no column 'z'"));
  const auto numbers = table_of({{"a", floats({1})}});
  EXPECT_THAT(refusal(numbers, "?shape=3"), HasSubstr("does not hold the 1 numbers of a row"));
  EXPECT_THAT(refusal(numbers, "?header=no"), HasSubstr("header"));
}

TEST_P(Columns, OtherColumnsMayHoldAnything) {
  const auto texts = array_of<arrow::StringBuilder, std::string>({"x", std::nullopt, "z"});
  arrow::StringDictionaryBuilder words;
  for (const char* word : {"u", "v", "u"}) must(words.Append(word));
  const auto table = table_of({{"s", texts}, {"a", longs({1, 2, 3})}, {"w", must(words.Finish())}});
  const auto producer = open(table, "?columns=a");
  EXPECT_EQ(producer->next()->values<std::int64_t>()[0], 1);
  producer->skip(1);
  EXPECT_EQ(producer->next()->values<std::int64_t>()[0], 3);
}

TEST_P(Columns, NoRowsAreNoSamples) {
  const auto producer = open(table_of({{"a", floats({})}}));
  EXPECT_EQ(producer->row_count(), 0);
  EXPECT_FALSE(producer->next());
}

// Of 32 groups of 32 KB, a place of 100 KB keeps three: what is read twice is right all the same.
TEST_P(Columns, MemoryIsBoundedByGroups) {
  std::vector<std::optional<std::int64_t>> values(32 * 4096);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  folder_.write("large", file_of(*table_of({{"a", longs(values)}}), GetParam().format, 4096));
  ArrowProducer producer(open_file((folder_.path() / "large").string()),
                         GetParam().format == ColumnFormat::kParquet ? parquet_groups : ipc_groups,
                         {}, 100 << 10);
  for (int pass = 0; pass < 2; ++pass) {
    std::int64_t expected = 0;
    producer.begin_epoch({});
    while (const auto sample = producer.next()) {
      ASSERT_EQ(sample->values<std::int64_t>()[0], expected++);
    }
    EXPECT_EQ(expected, 32 * 4096);
  }
  EXPECT_LE(producer.most_kept_bytes(), std::size_t{100} << 10);
}

TEST_P(Columns, ThreadsReadTheSame) {
  std::vector<std::optional<std::int64_t>> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  const auto producer = open(table_of({{"a", longs(values)}}));
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t row = t; row < 1000; row += 7) {
        std::int64_t value = -1;
        producer->read({&row, 1}, std::as_writable_bytes(std::span(&value, 1)));
        EXPECT_EQ(value, row);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Columns, AFileThatIsCutShortIsRefused) {
  const auto table = table_of({{"a", floats({1, 2, 3, 4, 5})}});
  const std::string whole = file_of(*table, GetParam().format, 2);
  for (std::size_t size = 0; size < whole.size(); size += 29) {
    folder_.write("cut", whole.substr(0, size));
    const auto read = [&] {
      const auto producer = open_producer(GetParam().scheme + ":cut", folder_.path());
      while (producer->next()) {
      }
      return producer->row_count();
    };
    // A stream may end after any of its batches.
    if (GetParam().format == ColumnFormat::kArrowStream) {
      try {
        EXPECT_LE(read(), 5);
      } catch (const Error&) {
      }
    } else {
      EXPECT_THROW(read(), Error) << size << " of " << whole.size();
    }
  }
}

// A footer may promise what it likes; memory is taken for what is there.
TEST(ParquetClaims, RowsThatAreNotThereAreRefused) {
  const TemporaryFolder folder;
  std::string file = file_of(*table_of({{"a", longs({1, 2, 3})}}), ColumnFormat::kParquet, 3);
  // The counts of the footer are zigzag varints: 3 rows are a byte 6 after the field's head 0x16.
  std::size_t claims = 0;
  const std::size_t footer = file.size() - 300 < file.size() ? file.size() - 300 : 0;
  for (std::size_t at = footer; at + 1 < file.size() - 8; ++at) {
    if (file[at] != '\x16' || file[at + 1] != '\x06') continue;
    std::string lying = file;
    lying[at + 1] = '\x7e';  // 63 rows
    folder.write("lying", lying);
    ++claims;
    try {
      const auto producer = open_producer("parquet:lying", folder.path());
      std::int64_t rows = 0;
      while (producer->next()) ++rows;
      EXPECT_EQ(rows, producer->row_count());
      EXPECT_EQ(rows, 3);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    }
  }
  EXPECT_GT(claims, 0U);
}

TEST(ParquetClaims, AColumnThatNestsTooDeepIsRefused) {
  const TemporaryFolder folder;
  const auto write = [&](int depth) {
    std::shared_ptr<arrow::Array> deep = longs({1, 2});
    for (int i = 1; i < depth; ++i) {
      deep = must(arrow::StructArray::Make({deep}, std::vector<std::string>{"f"}));
    }
    folder.write("deep", file_of(*table_of({{"a", longs({1, 2})}, {"deep", deep}}),
                                 ColumnFormat::kParquet, 2));
    return open_producer("parquet:deep?columns=a", folder.path())->row_count();
  };
  EXPECT_EQ(write(64), 2);
  expect_error(ErrorCode::kResourceExhausted, "nests 65 deep", [&] { (void)write(65); });
}

TEST(CappedMemory, GivesNothingPastItsCeiling) {
  CappedMemory memory(1000);
  std::uint8_t* first = nullptr;
  std::uint8_t* second = nullptr;
  ASSERT_TRUE(memory.Allocate(600, &first).ok());
  EXPECT_TRUE(memory.Allocate(600, &second).IsOutOfMemory());
  EXPECT_EQ(memory.bytes_allocated(), 600);
  EXPECT_TRUE(memory.Reallocate(600, 2000, &first).IsOutOfMemory());
  EXPECT_TRUE(memory.Reallocate(600, 1000, &first).ok());
  memory.Free(first, 1000);
  EXPECT_EQ(memory.bytes_allocated(), 0);
}

}  // namespace
}  // namespace harmonics::inline in_data
