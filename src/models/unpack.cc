// The blocks of GGUF: a scale, and small whole numbers that it stretches.
#include "unpack.h"

#include <bit>
#include <cstring>

namespace harmonics::inline in_models {
namespace {

constexpr std::int64_t kSmallBlock = 32;
constexpr std::int64_t kLargeBlock = 256;

float half_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return half_value(bits);
}

int byte_at(const std::byte* at) { return std::to_integer<int>(*at); }

// f16 scale, 32 signed bytes.
void unpack_q8_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < kSmallBlock; ++i) {
    out[i] = static_cast<float>(static_cast<std::int8_t>(byte_at(block + 2 + i))) * scale;
  }
}

// f16 scale, 16 bytes: low halves are the first sixteen numbers, high halves the others.
void unpack_q4_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < 16; ++i) {
    const int pair = byte_at(block + 2 + i);
    out[i] = static_cast<float>((pair & 15) - 8) * scale;
    out[i + 16] = static_cast<float>((pair >> 4) - 8) * scale;
  }
}

// f16 scale, f16 minimum, then as above.
void unpack_q4_1(const std::byte* block, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int pair = byte_at(block + 4 + i);
    out[i] = static_cast<float>(pair & 15) * scale + least;
    out[i + 16] = static_cast<float>(pair >> 4) * scale + least;
  }
}

// 128 bytes of low halves, 64 of two high bits each, 16 signed scales, f16 scale of all.
void unpack_q6_k(const std::byte* block, float* out) {
  const std::byte* low = block;
  const std::byte* high = block + 128;
  const std::byte* scales = block + 192;
  const float scale = half_at(block + 208);
  for (int half = 0; half < 2; ++half, low += 64, high += 32, scales += 8, out += 128) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int i = 0; i < 32; ++i) {
        const int pair = byte_at(low + (quarter % 2) * 32 + i);
        const int bits = (byte_at(high + i) >> (2 * quarter)) & 3;
        const int number = ((quarter < 2 ? pair & 15 : pair >> 4) | (bits << 4)) - 32;
        const int own = static_cast<std::int8_t>(byte_at(scales + 2 * quarter + i / 16));
        out[32 * quarter + i] = scale * static_cast<float>(own) * static_cast<float>(number);
      }
    }
  }
}

}  // namespace

float half_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31u;
  const std::uint32_t fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  const float small = static_cast<float>(fraction) * 0x1.0p-24f;
  return sign == 0 ? small : -small;
}

std::string_view packing_name(Packing packing) {
  switch (packing) {
    case Packing::kPlain: return "plain";
    case Packing::kQ8_0: return "q8_0";
    case Packing::kQ4_0: return "q4_0";
    case Packing::kQ4_1: return "q4_1";
    case Packing::kQ6_K: return "q6_k";
  }
  return "unknown";
}

PackingSize packing_size(Packing packing) {
  switch (packing) {
    case Packing::kPlain: return {};
    case Packing::kQ8_0: return {kSmallBlock, 34};
    case Packing::kQ4_0: return {kSmallBlock, 18};
    case Packing::kQ4_1: return {kSmallBlock, 20};
    case Packing::kQ6_K: return {kLargeBlock, 210};
  }
  return {};
}

void unpack_plain(Packing packing, ByteSpan blocks, std::span<float> out) {
  const PackingSize size = packing_size(packing);
  const std::byte* from = blocks.data();
  for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(size.numbers)) {
    switch (packing) {
      case Packing::kPlain: return;
      case Packing::kQ8_0: unpack_q8_0(from, &out[at]); break;
      case Packing::kQ4_0: unpack_q4_0(from, &out[at]); break;
      case Packing::kQ4_1: unpack_q4_1(from, &out[at]); break;
      case Packing::kQ6_K: unpack_q6_k(from, &out[at]); break;
    }
    from += size.bytes;
  }
}

void unpack(Packing packing, ByteSpan blocks, std::span<float> out) {
  if (!unpack_wide(packing, blocks, out)) unpack_plain(packing, blocks, out);
}

}  // namespace harmonics::inline in_models
