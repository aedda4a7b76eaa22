#include "packed_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace harmonics::inline in_transport {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffff;
constexpr std::uint32_t kInfinityBits = 0x7f800000;
// Sixteen bits of a scale's fraction are kept: a code of seven bits times it needs no rounding.
constexpr std::uint32_t kScaleBits = 0xffffff00;
// Added to a small number it leaves the nearest integer in the lowest bits.
constexpr float kRounder = 12582912.0F;
constexpr std::int32_t kRounderBits = 0x4b400000;

std::int8_t nearest_code(float value, float scale) {
  return static_cast<std::int8_t>(std::bit_cast<std::int32_t>(value / scale + kRounder) -
                                  kRounderBits);
}

// The bits of the largest magnitude; NaN and infinity are above all others.
std::uint32_t largest_magnitude(std::span<const float> values) {
  std::int32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest,
                       static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value) & kMagnitude));
  }
  return static_cast<std::uint32_t>(largest);
}

// Cutting bits off makes it smaller by 2^-15 of itself at most, which the largest code survives.
float scale_for(float largest, int top) {
  const float scale = largest / static_cast<float>(top);
  return std::max(std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & kScaleBits),
                  kSmallestScale);
}

// A row with values that are not finite, which is rare. Returns its scale.
float encode_marked(std::span<const float> values, int top, std::int8_t* codes) {
  float largest = 0;
  for (const float value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  const float scale = scale_for(largest, top - 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      codes[i] = nearest_code(values[i], scale);
    } else if (std::isnan(values[i])) {
      codes[i] = static_cast<std::int8_t>(-top - 1);
    } else {
      codes[i] = static_cast<std::int8_t>(values[i] > 0 ? top : -top);
    }
  }
  return -scale;
}

float encode(std::span<const float> values, int top, std::int8_t* codes) {
  const std::uint32_t largest = largest_magnitude(values);
  if (largest >= kInfinityBits) return encode_marked(values, top, codes);
  const float scale = scale_for(std::bit_cast<float>(largest), top);
  for (std::size_t i = 0; i < values.size(); ++i) codes[i] = nearest_code(values[i], scale);
  return scale;
}

void decode_marked(const std::int8_t* codes, int top, float scale, std::span<float> values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (codes[i] < -top) {
      values[i] = std::numeric_limits<float>::quiet_NaN();
    } else if (codes[i] == top || codes[i] == -top) {
      values[i] = codes[i] > 0 ? kInfinity : -kInfinity;
    } else {
      values[i] = static_cast<float>(codes[i]) * scale;
    }
  }
}

bool decode(const std::int8_t* codes, int top, float scale, std::span<float> values) {
  const float step = std::fabs(scale);
  // Written so that NaN fails, too.
  if (!(step >= kSmallestScale &&
        step <= std::numeric_limits<float>::max() / static_cast<float>(top) &&
        (std::bit_cast<std::uint32_t>(step) & ~kScaleBits) == 0)) {
    return false;
  }
  if (scale < 0) {
    decode_marked(codes, top, step, values);
    return true;
  }
  std::int8_t lowest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    lowest = std::min(lowest, codes[i]);
    values[i] = static_cast<float>(codes[i]) * step;
  }
  return lowest >= -top;
}

// Scratch of one thread for the codes of a row.
std::int8_t* code_scratch(std::size_t count) {
  thread_local std::vector<std::int8_t> scratch;
  if (scratch.size() < count) scratch.resize(count);
  return scratch.data();
}

std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kMagnitude;
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  if (magnitude > kInfinityBits) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude == kInfinityBits) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7bff);
  if (magnitude < 0x38800000) {  // below the normal numbers: 0.5 has their distance
    const float placed = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(placed) - 0x3f000000));
  }
  const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

float half_value(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = (half >> 10) & 31;
  const std::uint32_t fraction = half & 0x3ff;
  std::uint32_t magnitude = ((exponent + 112) << 23) | (fraction << 13);
  if (exponent == 31) magnitude = kInfinityBits | (fraction << 13);
  if (exponent == 0) {
    magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F);
  }
  return std::bit_cast<float>(sign | magnitude);
}

std::uint16_t bfloat16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kMagnitude;
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  // A finite value that would round to infinity becomes the largest number instead.
  const std::uint32_t finite = (rounded & 0x7fff) >= 0x7f80 ? rounded - 1 : rounded;
  const std::uint32_t other = (bits >> 16) | (magnitude > kInfinityBits ? 0x40 : 0);
  return static_cast<std::uint16_t>(magnitude < kInfinityBits ? finite : other);
}

template <typename Convert>
void convert_to_16(std::span<const float> values, std::byte* codes, Convert&& convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t code = convert(values[i]);
    std::memcpy(codes + 2 * i, &code, sizeof(code));
  }
}

template <typename Convert>
void convert_from_16(const std::byte* codes, std::span<float> values, Convert&& convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t code = 0;
    std::memcpy(&code, codes + 2 * i, sizeof(code));
    values[i] = convert(code);
  }
}

}  // namespace

float pack_row(std::span<const float> values, int bits, std::byte* codes) {
  if (bits == 8) return encode(values, top_code(8), reinterpret_cast<std::int8_t*>(codes));
  const std::size_t bytes = code_bytes(values.size(), bits);
  std::int8_t* const whole = code_scratch(2 * bytes);
  whole[2 * bytes - 1] = 0;
  const float scale = encode(values, top_code(4), whole);
  for (std::size_t i = 0; i < bytes; ++i) {
    codes[i] = static_cast<std::byte>((whole[2 * i] & 15) | (whole[2 * i + 1] & 15) << 4);
  }
  return scale;
}

bool unpack_row(const std::byte* codes, int bits, float scale, std::span<float> values) {
  if (bits == 8) {
    return decode(reinterpret_cast<const std::int8_t*>(codes), top_code(8), scale, values);
  }
  const std::size_t bytes = code_bytes(values.size(), bits);
  std::int8_t* const whole = code_scratch(2 * bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto pair = static_cast<std::uint8_t>(codes[i]);
    whole[2 * i] = static_cast<std::int8_t>(((pair & 15) ^ 8) - 8);
    whole[2 * i + 1] = static_cast<std::int8_t>(((pair >> 4) ^ 8) - 8);
  }
  const bool ends_well = values.size() % 2 == 0 || whole[2 * bytes - 1] == 0;
  return ends_well && decode(whole, top_code(4), scale, values);
}

void pack_bfloat16(std::span<const float> values, std::byte* codes) {
  convert_to_16(values, codes, bfloat16_of);
}

void unpack_bfloat16(const std::byte* codes, std::span<float> values) {
  convert_from_16(codes, values, [](std::uint16_t code) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
  });
}

void pack_float16(std::span<const float> values, std::byte* codes) {
  convert_to_16(values, codes, half_of);
}

void unpack_float16(const std::byte* codes, std::span<float> values) {
  convert_from_16(codes, values, half_value);
}

}  // namespace harmonics::inline in_transport
