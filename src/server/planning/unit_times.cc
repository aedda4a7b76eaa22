#include "unit_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <harmonics/base/error.h>

namespace harmonics::inline in_server {
namespace {

constexpr double kFactorStep = 1.1;

double sum(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

double rounded(double factor) {
  return std::pow(kFactorStep, std::round(std::log(factor) / std::log(kFactorStep)));
}

bool has_devices(const StagePlace& place) { return !place.place.devices.empty(); }

std::vector<double> estimate(const std::vector<Unit>& units, const StagePlace& place,
                             double work_per_flop) {
  const double flops = has_devices(place) ? kEstimatedGpuFlops : kEstimatedCpuFlops;
  std::vector<double> times;
  for (const Unit& unit : units) {
    const auto layers = static_cast<double>(unit.last_layer - unit.first_layer + 1);
    const double work = unit.flops + layers * kLayerOverheadFlops;
    times.push_back(work * work_per_flop / flops);
  }
  return times;
}

void check_profile(const StagePlace& place, std::size_t units) {
  if (place.measured->unit_s.size() == units) return;
  fail(ErrorCode::kInternal, "worker '{}' measured {} units, the graph has {}",
       place.place.spec.name, place.measured->unit_s.size(), units);
}

double estimated_part(const std::vector<double>& estimates, const TrainedPart& part) {
  double seconds = 0;
  for (std::size_t unit = part.first; unit <= part.last; ++unit) {
    if (unit <= estimates.size()) seconds += estimates[unit - 1];
  }
  return seconds;
}

std::vector<double> from_training(std::vector<double> estimates,
                                  const std::vector<TrainedPart>& parts) {
  double trained = 0;
  double estimated = 0;
  for (const TrainedPart& part : parts) {
    trained += part.micro_batch_s;
    estimated += estimated_part(estimates, part);
  }
  std::vector<double> factors(estimates.size(), rounded(trained / estimated));
  for (const TrainedPart& part : parts) {
    const double factor = rounded(part.micro_batch_s / estimated_part(estimates, part));
    for (std::size_t unit = part.first; unit <= part.last && unit <= factors.size(); ++unit) {
      factors[unit - 1] = factor;
    }
  }
  for (std::size_t i = 0; i < estimates.size(); ++i) estimates[i] *= factors[i];
  return estimates;
}

/// The middle (geometric) of how much longer than estimated places of that kind take; 1 where none
/// is known.
double factor_of_kind(const std::vector<StagePlace>& places,
                      const std::vector<std::vector<double>>& times, bool devices,
                      double estimated) {
  double logarithms = 0;
  int known = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!is_measured(places[i]) || has_devices(places[i]) != devices) continue;
    logarithms += std::log(sum(times[i]) / estimated);
    ++known;
  }
  return known == 0 ? 1 : rounded(std::exp(logarithms / known));
}

}  // namespace

std::vector<std::vector<double>> unit_times(const std::vector<Unit>& units,
                                            const std::vector<StagePlace>& places, double samples,
                                            double passes) {
  std::vector<std::vector<double>> times;
  for (const StagePlace& place : places) {
    if (place.measured) {
      check_profile(place, units.size());
      times.push_back(place.measured->unit_s);
      continue;
    }
    times.push_back(estimate(units, place, passes * samples));
    if (!place.trained.empty()) times.back() = from_training(times.back(), place.trained);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (is_measured(places[i])) continue;
    const double factor = factor_of_kind(places, times, has_devices(places[i]), sum(times[i]));
    for (double& time : times[i]) time *= factor;
  }
  return times;
}

}  // namespace harmonics::inline in_server
