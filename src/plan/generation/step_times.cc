#include "step_times.h"

#include <algorithm>
#include <map>

namespace harmonics::inline in_plan {
namespace {

using LayerSeconds = std::vector<double>;
using Line = std::map<double, LayerSeconds>;

// On the line through two points.
LayerSeconds between(const Line& line, double x) {
  auto above = line.upper_bound(x);
  if (above == line.begin()) ++above;
  if (above == line.end()) --above;
  const auto below = std::prev(above);
  const double share = (x - below->first) / (above->first - below->first);
  LayerSeconds out;
  for (std::size_t k = 0; k < below->second.size(); ++k) {
    out.push_back(std::max(0.0, below->second[k] + share * (above->second[k] - below->second[k])));
  }
  return out;
}

LayerSeconds at_context(const Line& line, double context) {
  return line.size() == 1 ? line.begin()->second : between(line, context);
}

LayerSeconds at_rows(const Line& line, double rows) {
  if (line.size() > 1) return between(line, rows);
  LayerSeconds out = line.begin()->second;
  for (double& seconds : out) seconds *= rows / line.begin()->first;
  return out;
}

}  // namespace

bool has_step_times(std::span<const TokenTimes> measured) {
  return std::ranges::any_of(measured, [](const TokenTimes& one) { return one.tokens == 1; }) &&
         std::ranges::any_of(measured, [](const TokenTimes& one) { return one.sequences == 1; });
}

std::vector<double> step_times(std::span<const TokenTimes> measured, bool decodes, double rows,
                               double context) {
  std::map<double, Line> by_rows;
  for (const TokenTimes& one : measured) {
    if ((decodes ? one.tokens : one.sequences) != 1) continue;
    const auto count = static_cast<double>(decodes ? one.sequences : one.tokens);
    by_rows[count][static_cast<double>(one.context)] = one.time_s;
  }
  Line line;
  for (const auto& [count, contexts] : by_rows) line[count] = at_context(contexts, context);
  return at_rows(line, rows);
}

}  // namespace harmonics::inline in_plan
