#include "load_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harmonics::inline in_plan {
namespace {

constexpr int kRounds = 400;
constexpr int kSweeps = 4;
constexpr int kHalvings = 80;

double bound_at(const UnitGraph& units, std::span<const double> price) {
  double sum = 0;
  for (Unit unit = 0; unit < units.size(); ++unit) sum += least_price(units, unit, price);
  return sum;
}

// Seconds that each device is given when every unit runs where it costs least.
std::vector<double> loads_at(const UnitGraph& units, std::span<const double> price) {
  std::vector<double> load(units.devices, 0);
  for (Unit unit = 0; unit < units.size(); ++unit) {
    std::size_t best = units.devices;
    for (std::size_t d = 0; d < units.devices; ++d) {
      if (!std::isfinite(units.time(unit, d))) continue;
      if (best == units.devices ||
          units.time(unit, d) * price[d] < units.time(unit, best) * price[best]) {
        best = d;
      }
    }
    if (best < units.devices) load[best] += units.time(unit, best);
  }
  return load;
}

// Moves price from one device to another for as long as the bound grows: it is concave in that.
void exchange(const UnitGraph& units, std::span<const DeviceLimits> devices, std::size_t a,
              std::size_t b, std::vector<double>& price) {
  const auto share = [&](std::size_t d) {
    return price[d] * static_cast<double>(devices[d].hosts);
  };
  const double both = share(a) + share(b);
  const auto set = [&](double part) {
    price[a] = both * part / static_cast<double>(devices[a].hosts);
    price[b] = both * (1 - part) / static_cast<double>(devices[b].hosts);
    return bound_at(units, price);
  };
  if (both <= 0) return;
  const double before = share(a) / both;
  const double value = bound_at(units, price);
  double low = 0, high = 1;
  for (int k = 0; k < kHalvings; ++k) {
    const double left = low + (high - low) / 3, right = high - (high - low) / 3;
    if (set(left) < set(right)) {
      low = left;
    } else {
      high = right;
    }
  }
  if (set((low + high) / 2) < value) set(before);
}

}  // namespace

double least_price(const UnitGraph& units, Unit unit, std::span<const double> price) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < units.devices; ++d) {
    if (std::isfinite(units.time(unit, d))) least = std::min(least, units.time(unit, d) * price[d]);
  }
  return least;
}

OperatorLoadProof bound_load(const UnitGraph& units, std::span<const DeviceLimits> devices) {
  // A device without hosts runs nothing: its price is as good as infinite.
  std::vector<double> weight(devices.size(), 0);
  std::vector<std::size_t> used;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].hosts > 0) used.push_back(d);
  }
  OperatorLoadProof best{0, std::vector<double>(devices.size(), 0)};
  if (used.empty()) return best;
  std::vector<double> price(devices.size(), 0);
  for (int round = 0; round < kRounds; ++round) {
    double all = 0;
    const double most = *std::ranges::max_element(weight);
    for (const std::size_t d : used) all += std::exp(weight[d] - most);
    for (const std::size_t d : used) {
      price[d] = std::exp(weight[d] - most) / all / static_cast<double>(devices[d].hosts);
    }
    const double bound = bound_at(units, price);
    if (round == 0 || bound > best.bound_s) best = {bound, price};
    // Dearer where more is asked for than the average host has.
    const std::vector<double> load = loads_at(units, price);
    double largest = 0;
    for (const std::size_t d : used) {
      largest = std::max(largest, load[d] / static_cast<double>(devices[d].hosts));
    }
    if (largest <= 0) break;
    for (const std::size_t d : used) {
      weight[d] +=
          load[d] / static_cast<double>(devices[d].hosts) / largest / std::sqrt(1.0 + round);
    }
  }
  price = best.price;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t a = 0; a < used.size(); ++a) {
      for (std::size_t b = a + 1; b < used.size(); ++b) {
        exchange(units, devices, used[a], used[b], price);
      }
    }
  }
  const double bound = bound_at(units, price);
  if (bound > best.bound_s) best = {bound, price};
  return best;
}

double longest_unit_s(const UnitGraph& units, std::span<const DeviceLimits> devices) {
  double longest = 0;
  for (Unit unit = 0; unit < units.size(); ++unit) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (devices[d].hosts > 0) least = std::min(least, units.time(unit, d));
    }
    longest = std::max(longest, least);
  }
  return longest;
}

}  // namespace harmonics::inline in_plan
