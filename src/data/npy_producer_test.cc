// NumPy files of every kind that is read, and what is wrong with others.
#include <harmonics/data/npy_producer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <harmonics/data/open_producer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of that version: the header padded as numpy does it, then the bytes.
std::string npy(std::string header, const std::string& data, char version = 1) {
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  while ((8 + length_bytes + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = std::string("\x93NUMPY") + version + '\0';
  for (std::size_t i = 0; i < length_bytes; ++i) {
    file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  }
  return file + header + data;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class NpyProducerTest : public ::testing::Test {
 protected:
  NpyProducer open(const std::string& file, const NpyOptions& options = {}) {
    return NpyProducer(folder_.write("data.npy", file), options);
  }
  template <typename T>
  std::vector<T> values(const std::string& file, const NpyOptions& options = {}) {
    std::vector<T> all;
    NpyProducer producer = open(file, options);
    while (const auto sample = producer.next()) {
      all.insert(all.end(), sample->values<T>().begin(), sample->values<T>().end());
    }
    return all;
  }
  std::string error(const std::string& file, const NpyOptions& options = {}) {
    return error_of([&] {
      NpyProducer producer = open(file, options);
      while (producer.next()) continue;
    });
  }

  TemporaryFolder folder_;
};

TEST_F(NpyProducerTest, EveryVersion) {
  const std::string data = bytes_of<float>({1, 2, 3, 4, 5, 6});
  for (const char version : {1, 2, 3}) {
    const std::string file = npy(header("<f4", "(2, 3)"), data, version);
    EXPECT_EQ(open(file).sample_spec(), (TensorSpec{{3}, DType::kFloat32}));
    EXPECT_THAT(values<float>(file), ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(NpyProducerTest, EveryElement) {
  EXPECT_THAT(values<double>(npy(header("<f8", "(1, 1)"), bytes_of<double>({-0.5}))),
              ElementsAre(-0.5));
  EXPECT_THAT(values<std::int64_t>(npy(header("<i8", "(2,)"), bytes_of<std::int64_t>({-1, 7}))),
              ElementsAre(-1, 7));
  EXPECT_THAT(values<std::int32_t>(npy(header(">i4", "(1,)"), std::string("\0\0\1\2", 4))),
              ElementsAre(258));
  EXPECT_THAT(values<std::int32_t>(npy(header("<i2", "(1,)"), bytes_of<std::int16_t>({-3}))),
              ElementsAre(-3));
  EXPECT_THAT(values<std::int64_t>(npy(header("<u4", "(1,)"), "\xFF\xFF\xFF\xFF")),
              ElementsAre(4294967295));
  EXPECT_THAT(values<std::uint8_t>(npy(header("|u1", "(2, 1)"), "\x01\xFF")), ElementsAre(1, 255));
  EXPECT_THAT(values<bool>(npy(header("|b1", "(1, 2)"), std::string("\1\0", 2))),
              ElementsAre(true, false));
}

TEST_F(NpyProducerTest, DTypeScaleAndText) {
  const std::string file = npy(header("|u1", "(2,)"), std::string("\0\xFF", 2));
  EXPECT_THAT(values<float>(file, {std::nullopt, 1.0 / 255, false}), ElementsAre(0, 1));
  folder_.write("data.npy", file);
  const auto opened = open_producer("npy:data.npy?dtype=int64", folder_.path());
  EXPECT_EQ(opened->sample_spec(), (TensorSpec{{1}, DType::kInt64}));
  EXPECT_EQ(opened->row_count(), 2);
  EXPECT_THAT(error(file, {DType::kInt8, 1.0, false}), HasSubstr("sample 1: a value is no int8"));
  EXPECT_THAT(error(file, {DType::kInt32, 0.5, false}), HasSubstr("needs a float dtype"));
  EXPECT_THAT(error(file, {DType::kBool, 1.0, false}), HasSubstr("cannot be read as bool"));
}

TEST_F(NpyProducerTest, NotANumber) {
  const std::string file = npy(header("<f4", "(1, 2)"), std::string("\0\0\0\0\0\0\xC0\x7F", 8));
  EXPECT_THAT(error(file), HasSubstr("sample 0, element 1: NaN is no number"));
  EXPECT_EQ(values<float>(file, {std::nullopt, 1.0, true}).size(), 2U);
}

TEST_F(NpyProducerTest, ForeignAndTruncatedFiles) {
  const std::string good = npy(header("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6}));
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_NE(error(good.substr(0, length)), "no error") << length;
  }
  EXPECT_THAT(error(good + "x"), HasSubstr("truncated or foreign"));
  EXPECT_THAT(error("1,2,3\n4,5,6,7\n"), HasSubstr("is no NumPy file"));
  EXPECT_THAT(error(npy(header("|O", "(2,)"), "")), HasSubstr("elements of the kind '|O'"));
  EXPECT_THAT(error(npy(header("<f2", "(1,)"), "ab")), HasSubstr("elements of the kind '<f2'"));
  EXPECT_THAT(error(npy(header("<f4", "(1, 1)", "True"), "abcd")), HasSubstr("Fortran's order"));
  EXPECT_THAT(error(npy(header("<f4", "()"), "abcd")), HasSubstr("holds one number"));
  EXPECT_THAT(error(npy(header("<f4", "(-1,)"), "abcd")), HasSubstr("a shape that is none"));
  EXPECT_THAT(error(npy("{'descr': '<f4', 'extra': 1}", "")), HasSubstr("not known"));
  EXPECT_THAT(error(npy("{'descr': '<f4'}", "")), HasSubstr("no descr, fortran_order or shape"));
}

// What a file claims is compared with its size before anything is allocated.
TEST_F(NpyProducerTest, Ceilings) {
  EXPECT_THAT(error(npy(header("<f8", "(10000000000, 10)"), "")),
              HasSubstr("truncated or foreign"));
  EXPECT_NE(error(npy(header("<f8", "(4294967295, 4294967295, 4294967295)"), "")), "no error");
  EXPECT_THAT(error(std::string("\x93NUMPY\2\0\xFF\xFF\xFF\x7F{", 13)),
              HasSubstr("claims a header of 2147483647 bytes"));
  std::string axes;
  for (std::size_t i = 0; i < kMaxNpyAxes; ++i) axes += "1,";
  EXPECT_EQ(open(npy(header("|u1", "(" + axes + ")"), "x")).sample_spec().shape.size(),
            kMaxNpyAxes - 1);
  EXPECT_THAT(error(npy(header("|u1", "(" + axes + "1)"), "x")), HasSubstr("more than 8 axes"));
}

}  // namespace
}  // namespace harmonics::inline in_data
