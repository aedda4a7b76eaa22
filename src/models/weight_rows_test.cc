#include <harmonics/models/weight_rows.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include <harmonics/base/file.h>
#include <harmonics/base/random.h>

#include "temporary_folder_testing.h"
#include "unpack.h"

namespace harmonics::inline in_models {
namespace {

// Blocks of chance whose scales are ordinary numbers.
std::vector<std::byte> drawn_blocks(Packing packing, std::int64_t count) {
  const PackingSize size = packing_size(packing);
  Random random(3, packing_name(packing));
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * size.bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  for (std::int64_t block = 0; block < count; ++block) {
    std::byte* const at = bytes.data() + block * size.bytes;
    const auto half = [&](std::int64_t offset) {
      const auto bits = static_cast<std::uint16_t>((random.below(2) << 15) |
                                                   (random.below(30) << 10) | random.below(1024));
      std::memcpy(at + offset, &bits, sizeof bits);
    };
    half(packing == Packing::kQ6_K ? 208 : 0);
    if (packing == Packing::kQ4_1) half(2);
  }
  return bytes;
}

TEST(WeightRows, ManyAtATimeIsNumberByNumber) {
  for (const Packing packing : {Packing::kQ8_0, Packing::kQ4_0, Packing::kQ4_1, Packing::kQ6_K}) {
    const std::vector<std::byte> blocks = drawn_blocks(packing, 200);
    std::vector<float> plain(static_cast<std::size_t>(200 * packing_size(packing).numbers));
    std::vector<float> wide(plain.size());
    unpack_plain(packing, blocks, plain);
    unpack(packing, blocks, wide);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(plain[i]), std::bit_cast<std::uint32_t>(wide[i]))
          << packing_name(packing) << " " << i;
      ASSERT_TRUE(std::isfinite(plain[i]));
    }
  }
}

TEST(WeightRows, HalvesAndBfloatsAreWidened) {
  std::vector<std::uint16_t> bits;
  for (std::uint32_t i = 0; i < 0x7c00; i += 7) bits.push_back(static_cast<std::uint16_t>(i));
  const auto* const bytes = reinterpret_cast<const std::byte*>(bits.data());
  std::vector<float> out(bits.size());
  widen(bytes, true, out);
  for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(out[i], half_value(bits[i]));
  widen(bytes, false, out);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), static_cast<std::uint32_t>(bits[i]) << 16);
  }
}

TEST(WeightRows, AreThoseThatTheSourceReads) {
  const TemporaryFolder folder;
  const std::vector<std::byte> packed = drawn_blocks(Packing::kQ4_1, 16);
  std::vector<float> plain(24);
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<float>(i);
  std::vector<std::byte> all = packed;
  const auto* const bytes = reinterpret_cast<const std::byte*>(plain.data());
  all.insert(all.end(), bytes, bytes + plain.size() * sizeof(float));
  write_text_file(folder.path() / "weights",
                  std::string(reinterpret_cast<const char*>(all.data()), all.size()));
  const auto file = std::make_shared<const MappedFile>(folder.path() / "weights");
  const std::uint64_t behind = packed.size();
  WeightEntries entries;
  entries["pairs"] = {
      0, 0, Packing::kQ4_1, {{8, 64}, DType::kFloat32}, {8, 64}, {.paired_heads = 2}};
  entries["some"] = {0, 0, Packing::kQ4_1, {{8, 64}, DType::kFloat32}, {3, 64}, {.first_row = 4}};
  entries["plain"] = {0, behind, Packing::kPlain, {{6, 4}, DType::kFloat32}, {6, 4}};
  entries["turned"] = {
      0, behind, Packing::kPlain, {{6, 4}, DType::kFloat32}, {4, 6}, {.transposed = true}};
  entries["line"] = {0, behind, Packing::kPlain, {{24}, DType::kFloat32}, {5}, {.first_row = 7}};
  const WeightSource source({file}, entries);
  for (const char* name : {"pairs", "some", "plain", "turned", "line"}) {
    const Tensor want = source.read(name);
    const WeightRows rows(source, name);
    ASSERT_EQ(rows.rows() * rows.columns(), want.size()) << name;
    std::vector<float> row(static_cast<std::size_t>(rows.columns()));
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
      rows.unpack(i, row);
      const float* const own = want.values<float>().data() + i * rows.columns();
      EXPECT_EQ(std::memcmp(row.data(), own, row.size() * sizeof(float)), 0) << name << " " << i;
      if (rows.plain(i) != nullptr) {
        EXPECT_EQ(std::memcmp(rows.plain(i), own, row.size() * sizeof(float)), 0) << name;
      }
    }
  }
  EXPECT_EQ(WeightRows(source, "pairs").copied_bytes(), 0u);
  EXPECT_EQ(WeightRows(source, "pairs").stored_bytes(), 8u * 2 * 20);
  EXPECT_EQ(WeightRows(source, "turned").copied_bytes(), 96u);
  EXPECT_NE(WeightRows(source, "plain").all_plain(), nullptr);
}

}  // namespace
}  // namespace harmonics::inline in_models
