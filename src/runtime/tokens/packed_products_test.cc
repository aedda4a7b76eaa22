#include "packed_products.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/random.h>
#include <harmonics/models/weight_rows.h>

#include "temporary_folder_testing.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::int64_t kOuts = 23, kColumns = 160;

struct Stored {
  const char* name;
  Packing packing;
  DType dtype;
  std::size_t row_bytes;
};
constexpr Stored kStored[] = {{"q8_0", Packing::kQ8_0, DType::kFloat32, 5 * 34},
                              {"q4_0", Packing::kQ4_0, DType::kFloat32, 5 * 18},
                              {"q4_1", Packing::kQ4_1, DType::kFloat32, 5 * 20},
                              {"half", Packing::kPlain, DType::kFloat16, 2 * kColumns},
                              {"brain", Packing::kPlain, DType::kBFloat16, 2 * kColumns}};

/// Matrices of chance in a file, one of each kind, whose 16-bit numbers are all finite.
class PackedMatrices {
 public:
  PackedMatrices() {
    Random random(11, "packed");
    std::string bytes;
    WeightEntries entries;
    for (const Stored& each : kStored) {
      entries[each.name] = {
          0, bytes.size(), each.packing, {{kOuts, kColumns}, each.dtype}, {kOuts, kColumns}};
      for (std::size_t i = 0; i < kOuts * each.row_bytes; i += 2) {
        bytes.push_back(static_cast<char>(random.below(256)));
        bytes.push_back(static_cast<char>(random.below(2) << 7 | (28 + random.below(40))));
      }
    }
    write_text_file(folder_.path() / "weights", bytes);
    source_ = WeightSource({std::make_shared<const MappedFile>(folder_.path() / "weights")},
                           std::move(entries));
  }
  [[nodiscard]] const WeightSource& source() const { return source_; }

 private:
  TemporaryFolder folder_;
  WeightSource source_;
};

std::vector<float> unpacked_products(const WeightRows& w, const std::vector<float>& x) {
  std::vector<float> all(static_cast<std::size_t>(kOuts * kColumns));
  for (std::int64_t row = 0; row < kOuts; ++row) {
    w.unpack(row, {all.data() + row * kColumns, static_cast<std::size_t>(kColumns)});
  }
  const std::size_t rows = x.size() / kColumns;
  std::vector<float> y(rows * kOuts);
  products({x.data(), rows, kColumns}, {all.data(), kOuts, kColumns}, kColumns, y.data(), kOuts);
  return y;
}

PackedRowsView view_of(const WeightRows& w, std::vector<const std::byte*>& rows) {
  rows.clear();
  for (std::int64_t row = 0; row < w.rows(); ++row) rows.push_back(w.stored(row));
  return {w.packing(), w.dtype(), rows.data(), rows.size(), w.row_bytes()};
}

class EveryPackedKernel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      choose_kernel(GetParam());
    } catch (const Error&) {
      GTEST_SKIP() << "this machine has no " << GetParam();
    }
  }
  void TearDown() override { choose_kernel(nullptr); }
};

TEST_P(EveryPackedKernel, GivesTheBitsOfUnpackedRows) {
  const PackedMatrices matrices;
  Random random(12, "x");
  for (const Stored& each : kStored) {
    const WeightRows w(matrices.source(), each.name);
    for (std::size_t rows = 1; rows <= kMostPackedRows; ++rows) {
      std::vector<float> x(rows * kColumns);
      for (float& value : x) value = random.normal();
      std::vector<const std::byte*> at;
      std::vector<float> y(rows * kOuts);
      ASSERT_TRUE(
          packed_products({x.data(), rows, kColumns}, view_of(w, at), kColumns, y.data(), kOuts));
      const std::vector<float> want = unpacked_products(w, x);
      EXPECT_EQ(std::memcmp(y.data(), want.data(), y.size() * sizeof(float)), 0)
          << each.name << " " << rows;
    }
  }
}

TEST_P(EveryPackedKernel, LeavesWhatItCannotDo) {
  const PackedMatrices matrices;
  const WeightRows w(matrices.source(), "q4_1");
  std::vector<const std::byte*> at;
  const std::vector<float> x((kMostPackedRows + 1) * kColumns);
  std::vector<float> y((kMostPackedRows + 1) * kOuts, 7.0f);
  PackedRowsView view = view_of(w, at);
  EXPECT_FALSE(
      packed_products({x.data(), kMostPackedRows + 1, kColumns}, view, kColumns, y.data(), kOuts));
  EXPECT_FALSE(packed_products({x.data(), 1, kColumns}, view, kColumns - 1, y.data(), kOuts));
  view.packing = Packing::kQ6_K;
  EXPECT_FALSE(packed_products({x.data(), 1, kColumns}, view, kColumns, y.data(), kOuts));
  choose_kernel("plain");
  view.packing = Packing::kQ4_1;
  EXPECT_FALSE(packed_products({x.data(), 1, kColumns}, view, kColumns, y.data(), kOuts));
  EXPECT_EQ(y, std::vector<float>(y.size(), 7.0f));
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryPackedKernel, testing::Values("avx2", "avx512"));

}  // namespace
}  // namespace harmonics::inline in_runtime
