#include "resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace harmonics::inline in_images {
namespace {

constexpr int kFraction = 22;

struct Filter {
  double support;
  double (*weight)(double x);
};

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double cubic(double x) {
  constexpr double kSharpness = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kSharpness + 2.0) * x - (kSharpness + 3.0)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kSharpness;
  return 0;
}

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

double hamming(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

Filter filter_of(Resample resample) {
  switch (resample) {
    case Resample::kLanczos: return {3, lanczos};
    case Resample::kBicubic: return {2, cubic};
    case Resample::kBox: return {0.5, box};
    case Resample::kHamming: return {1, hamming};
    default: return {1, triangle};
  }
}

/// Which old pixels a new one is made of, and how much of each.
struct Mixture {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Mixture> mixtures(std::int64_t from, std::int64_t to, Filter filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);
  const double support = filter.support * stretch;
  std::vector<Mixture> all(static_cast<std::size_t>(to));
  std::vector<double> weights;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
    const auto end = std::min(from, static_cast<std::int64_t>(centre + support + 0.5));
    weights.clear();
    double sum = 0;
    for (std::int64_t x = first; x < end; ++x) {
      weights.push_back(filter.weight((static_cast<double>(x) - centre + 0.5) * (1.0 / stretch)));
      sum += weights.back();
    }
    all[i].first = first;
    for (const double weight : weights) {
      const double share = (sum != 0 ? weight / sum : weight) * (1 << kFraction);
      all[i].weights.push_back(static_cast<std::int32_t>(share < 0 ? share - 0.5 : share + 0.5));
    }
  }
  return all;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kFraction, 0, 255));
}

Image along_rows(const Image& from, std::int64_t width, Filter filter) {
  const std::vector<Mixture> all = mixtures(from.width, width, filter);
  Image to{width, from.height,
           std::vector<std::uint8_t>(static_cast<std::size_t>(width * from.height * 3))};
  std::uint8_t* out = to.pixels.data();
  for (std::int64_t y = 0; y < from.height; ++y) {
    for (const Mixture& mixture : all) {
      std::int32_t sums[3] = {1 << (kFraction - 1), 1 << (kFraction - 1), 1 << (kFraction - 1)};
      const std::uint8_t* in = from.row(y) + 3 * mixture.first;
      for (const std::int32_t weight : mixture.weights) {
        for (std::int32_t& sum : sums) sum += weight * *in++;
      }
      for (const std::int32_t sum : sums) *out++ = rounded(sum);
    }
  }
  return to;
}

Image along_columns(const Image& from, std::int64_t height, Filter filter) {
  const auto row_bytes = static_cast<std::size_t>(from.width * 3);
  Image to{from.width, height,
           std::vector<std::uint8_t>(static_cast<std::size_t>(height) * row_bytes)};
  std::uint8_t* out = to.pixels.data();
  std::vector<std::int32_t> sums(row_bytes);
  for (const Mixture& mixture : mixtures(from.height, height, filter)) {
    std::ranges::fill(sums, 1 << (kFraction - 1));
    for (std::size_t i = 0; i < mixture.weights.size(); ++i) {
      const std::uint8_t* const in = from.row(mixture.first + static_cast<std::int64_t>(i));
      const std::int32_t weight = mixture.weights[i];
      for (std::size_t x = 0; x < row_bytes; ++x) sums[x] += weight * in[x];
    }
    for (const std::int32_t sum : sums) *out++ = rounded(sum);
  }
  return to;
}

// The old place of each new one, added up step by step as Pillow does, whose rounding it shares.
std::vector<std::int64_t> places(std::int64_t from, std::int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  std::vector<std::int64_t> all;
  double at = step * 0.5;
  for (std::int64_t i = 0; i < to; ++i, at += step) {
    all.push_back(std::min(from - 1, static_cast<std::int64_t>(at)));
  }
  return all;
}

Image picked(const Image& from, std::int64_t width, std::int64_t height) {
  Image to{width, height, {}};
  to.pixels.reserve(static_cast<std::size_t>(width * height * 3));
  const std::vector<std::int64_t> columns = places(from.width, width);
  for (const std::int64_t y : places(from.height, height)) {
    for (const std::int64_t x : columns) {
      const std::uint8_t* const pixel = from.row(y) + 3 * x;
      to.pixels.insert(to.pixels.end(), pixel, pixel + 3);
    }
  }
  return to;
}

}  // namespace

Image resized(const Image& from, std::int64_t width, std::int64_t height, Resample resample) {
  if (from.width == width && from.height == height) return from;
  if (resample == Resample::kNearest) return picked(from, width, height);
  const Filter filter = filter_of(resample);
  if (from.width == width) return along_columns(from, height, filter);
  const Image wide = along_rows(from, width, filter);
  return from.height == height ? wide : along_columns(wide, height, filter);
}

}  // namespace harmonics::inline in_images
