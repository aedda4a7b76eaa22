// The straightforward way to the least period: a dynamic programme over how many layers are placed,
// how many hosts of each type are used, and the type that runs the last stage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <harmonics/plan/cost_model.h>

namespace harmonics::reference {

/// The least period over all plans of one host per stage; infinite when there is none. Takes time
/// and memory in proportion to the product of all host counts.
inline double least_period(const PlanProblem& problem, const CostOptions& options) {
  const CostModel costs(problem, options);
  const std::size_t layers = costs.layers();
  const std::size_t types = costs.classes();
  std::vector<std::size_t> stride(types + 1, 1);
  for (std::size_t u = 0; u < types; ++u) stride[u + 1] = stride[u] * (costs.hosts(u) + 1);
  const std::size_t states = stride[types];
  const double never = std::numeric_limits<double>::infinity();
  // best[cut][used][last type]
  std::vector<double> best((layers + 1) * states * types, never);
  const auto at = [&](std::size_t cut, std::size_t used, std::size_t type) -> double& {
    return best[(cut * states + used) * types + type];
  };
  double least = never;
  const auto extend = [&](std::size_t i, std::size_t used, std::size_t u, double so_far) {
    for (std::size_t j = i + 1; j <= layers; ++j) {
      if (!costs.allowed(u, i, j)) continue;
      const double period = std::max(so_far, costs.compute_s(u, i, j));
      at(j, used, u) = std::min(at(j, used, u), period);
      if (j == layers) least = std::min(least, period);
    }
  };
  for (std::size_t i = 0; i < layers; ++i) {
    for (std::size_t state = 0; state < states * types; ++state) {
      const std::size_t used = state / types;
      const std::size_t p = state % types;
      const double so_far = i == 0 ? 0 : at(i, used, p);
      if (so_far == never || (i == 0 && state > 0)) continue;
      for (std::size_t u = 0; u < types; ++u) {
        if (used / stride[u] % (costs.hosts(u) + 1) == costs.hosts(u)) continue;
        const double receive = i == 0 ? 0 : costs.transfer_s(i, costs.bandwidth(p, u));
        extend(i, used + stride[u], u, std::max(so_far, receive));
      }
    }
  }
  return least;
}

}  // namespace harmonics::reference
