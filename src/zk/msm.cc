#include "msm.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>

namespace harmonics::zk {
namespace {

// Sum of digit * bucket[digit], by running sums from the largest digit down.
Point sum_of_buckets(const std::vector<Point>& buckets) {
  Point running = identity();
  Point sum = identity();
  for (std::size_t digit = buckets.size() - 1; digit >= 1; --digit) {
    running = add(running, buckets[digit]);
    sum = add(sum, running);
  }
  return sum;
}

// Adds windows from the most significant down. digit(i, w) is the signed digit of scalar i.
template <typename DigitOf>
Point sum_of_windows(std::span<const AffinePoint> points, int width, int windows, DigitOf digit) {
  Point sum = identity();
  std::vector<Point> buckets;
  for (int w = windows - 1; w >= 0; --w) {
    for (int i = 0; w != windows - 1 && i < width; ++i) sum = twice(sum);
    buckets.assign((std::size_t{1} << (width - 1)) + 1, identity());
    for (std::size_t i = 0; i < points.size(); ++i) {
      const int d = digit(i, w);
      if (d > 0)
        buckets[static_cast<std::size_t>(d)] = add(buckets[static_cast<std::size_t>(d)], points[i]);
      if (d < 0)
        buckets[static_cast<std::size_t>(-d)] =
            subtract(buckets[static_cast<std::size_t>(-d)], points[i]);
    }
    sum = add(sum, sum_of_buckets(buckets));
  }
  return sum;
}

// Signed digits in [-2^(width-1), 2^(width-1)] of every scalar, window by window.
std::vector<std::int16_t> signed_digits(std::span<const Scalar> scalars, int width, int windows) {
  std::vector<std::int16_t> digits(scalars.size() * static_cast<std::size_t>(windows));
  for (std::size_t i = 0; i < scalars.size(); ++i) {
    std::uint64_t words[5] = {};
    std::memcpy(words, scalars[i].bytes.data(), 32);
    int carry = 0;
    for (int w = 0; w < windows; ++w) {
      const int bit = w * width;
      const int word = bit / 64;
      const int shift = bit % 64;
      std::uint64_t raw = word < 4 ? words[word] >> shift : 0;
      if (shift != 0 && word < 4) raw |= words[word + 1] << (64 - shift);
      int digit = static_cast<int>(raw & ((std::uint64_t{1} << width) - 1)) + carry;
      carry = digit > (1 << (width - 1)) ? 1 : 0;
      digit -= carry << width;
      digits[static_cast<std::size_t>(w) * scalars.size() + i] = static_cast<std::int16_t>(digit);
    }
  }
  return digits;
}

// Windows about as wide as makes filling and summing the buckets cost the same.
int width_for(std::size_t count) {
  return std::clamp(static_cast<int>(std::bit_width(count)) - 3, 3, 12);
}

constexpr int kScalarBits = 254;  // and one for the last carry

}  // namespace

Point multi_multiply(std::span<const Scalar> scalars, std::span<const AffinePoint> points) {
  const int width = width_for(scalars.size());
  const int windows = (kScalarBits + width - 1) / width;
  const std::vector<std::int16_t> digits = signed_digits(scalars, width, windows);
  return sum_of_windows(points, width, windows, [&](std::size_t i, int w) {
    return digits[static_cast<std::size_t>(w) * scalars.size() + i];
  });
}

Point multi_multiply(std::span<const std::int8_t> values, std::span<const AffinePoint> points) {
  return sum_of_windows(points.first(values.size()), 8, 1,
                        [&](std::size_t i, int) { return values[i]; });
}

Point multi_multiply(std::span<const std::int32_t> values, std::span<const AffinePoint> points,
                     int bits) {
  const int windows = (bits + 9) / 9;  // the sign needs room in the last one
  const int width = (bits + windows) / windows;
  const std::int64_t half = std::int64_t{1} << (width - 1);
  return sum_of_windows(points.first(values.size()), width, windows, [&](std::size_t i, int w) {
    std::int64_t rest = values[i];
    std::int64_t digit = 0;
    for (int k = 0; k <= w; ++k) {
      if (k == windows - 1) return static_cast<int>(rest);
      digit = ((rest + half) & (2 * half - 1)) - half;
      rest = (rest - digit) >> width;
    }
    return static_cast<int>(digit);
  });
}

Point multiply(const Scalar& scalar, const PointBytes& point) {
  const std::optional<Point> product = decode_point(multiply_encoded(scalar, point));
  HARMONICS_CHECK(product.has_value(), "a product of points is no point");
  return *product;
}

namespace {

AffinePoint hashed(std::string_view label, std::uint64_t index, PointBytes* bytes = nullptr) {
  const PointBytes encoded = hash_to_group(label, index);
  const std::optional<Point> point = decode_point(encoded);
  HARMONICS_CHECK(point.has_value(), "a hash to the group is no point");
  if (bytes != nullptr) *bytes = encoded;
  return affine(*point);
}

}  // namespace

const Generators& generators(std::size_t columns) {
  if (columns > kMaxZkColumns) {
    fail(ErrorCode::kResourceExhausted, "rows of {} columns are above the limit of {} for proofs",
         columns, kMaxZkColumns);
  }
  // One set per power of two, each made once: a reference stays good.
  static std::mutex mutex;
  static std::unique_ptr<const Generators> sets[18];
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(columns, 64));
  const std::lock_guard lock(mutex);
  auto& slot = sets[std::bit_width(size) - 1];
  if (slot == nullptr) {
    auto made = std::make_unique<Generators>();
    for (std::size_t i = 0; i < size; ++i) {
      made->row.push_back(hashed("harmonics zk row generator 1", i));
    }
    made->blinding = hashed("harmonics zk blinding generator 1", 0, &made->blinding_bytes);
    made->product = hashed("harmonics zk product generator 1", 0, &made->product_bytes);
    slot = std::move(made);
  }
  return *slot;
}

Point commit(const Scalars& values, const Scalar& blinding) {
  const Generators& g = generators(values.size());
  return add(multi_multiply(values, std::span(g.row).first(values.size())),
             multiply(blinding, g.blinding_bytes));
}

}  // namespace harmonics::zk
