#include "soft_flow.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harmonics::inline in_plan {
namespace {

constexpr double kMissingLink = 0.85;
constexpr std::int32_t kUnreached = std::numeric_limits<std::int32_t>::max() / 2;
constexpr double kUnlimited = 1e300;
constexpr double kLeastShare = 1e-9;

}  // namespace

SoftFlow::SoftFlow(const FlowProblem& problem)
    : problem_(problem),
      head_(2 * problem.hosts.size() + 2),
      starts_(problem.layers + 1),
      discount_(2 * problem.hosts.size() + 4, 1) {
  for (std::size_t k = 1; k < discount_.size(); ++k) discount_[k] = discount_[k - 1] * kMissingLink;
  double largest = 0;
  for (const FlowKind& kind : problem.kinds) {
    for (const std::vector<double>& row : kind.rates) {
      for (const double rate : row) largest = std::max(largest, rate);
    }
  }
  least_ = largest * kLeastShare;
}

void SoftFlow::add(std::size_t from, std::size_t to, double capacity, std::int32_t cost) {
  const auto at = static_cast<std::int32_t>(arcs_.size());
  arcs_.push_back(
      {static_cast<std::uint32_t>(to), head_[from], cost, std::min(capacity, kUnlimited)});
  head_[from] = at;
  arcs_.push_back({static_cast<std::uint32_t>(from), head_[to], -cost, 0});
  head_[to] = at + 1;
}

void SoftFlow::add_link(std::size_t from_place, std::size_t to_place, double link, double host) {
  if (link > 0) add(from_place, to_place, link, 0);
  if (link < host && !only_real_) add(from_place, to_place, kUnlimited, 1);
}

void SoftFlow::build(std::span<const FlowRange> ranges) {
  arcs_.clear();
  std::ranges::fill(head_, -1);
  for (auto& list : starts_) list.clear();
  for (std::size_t h = 0; h < ranges.size(); ++h) {
    if (ranges[h].used()) starts_[ranges[h].first_cut].push_back(static_cast<std::uint32_t>(h));
  }
  const std::size_t source = 2 * ranges.size();
  for (std::size_t h = 0; h < ranges.size(); ++h) {
    const FlowRange range = ranges[h];
    if (!range.used()) continue;
    const double rate = problem_.rate(problem_.hosts[h].kind, range.first_cut, range.last_cut);
    add(2 * h, 2 * h + 1, rate, 0);
    if (range.first_cut == 0) {
      add_link(source, 2 * h, problem_.link_rate(problem_.source(), h, 0), rate);
    }
    if (range.last_cut == problem_.layers) {
      const double out = problem_.link_rate(h, problem_.sink(), range.last_cut);
      add_link(2 * h + 1, source + 1, out, rate);
      continue;
    }
    for (const std::uint32_t next : starts_[range.last_cut]) {
      add_link(2 * h + 1, 2 * next, problem_.link_rate(h, next, range.last_cut), rate);
    }
  }
}

// The way with the fewest missing links.
bool SoftFlow::search() {
  const std::size_t places = head_.size();
  const std::size_t source = places - 2;
  distance_.assign(places, kUnreached);
  came_.assign(places, -1);
  waits_.assign(places, false);
  queue_.clear();
  queue_.push_back(static_cast<std::uint32_t>(source));
  distance_[source] = 0;
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    const std::uint32_t at = queue_[next];
    waits_[at] = false;
    for (std::int32_t k = head_[at]; k >= 0; k = arcs_[static_cast<std::size_t>(k)].next) {
      ++work_;
      const Arc& arc = arcs_[static_cast<std::size_t>(k)];
      if (arc.left <= least_ || distance_[at] + arc.cost >= distance_[arc.to]) continue;
      distance_[arc.to] = distance_[at] + arc.cost;
      came_[arc.to] = k;
      if (!waits_[arc.to]) queue_.push_back(arc.to);
      waits_[arc.to] = true;
    }
  }
  return distance_[source + 1] < kUnreached;
}

SoftFlow::Value SoftFlow::evaluate(std::span<const FlowRange> ranges, bool only_real) {
  only_real_ = only_real;
  build(ranges);
  work_ += arcs_.size();
  Value value;
  const std::size_t source = head_.size() - 2;
  const auto origin = [this](std::size_t place) {
    return arcs_[static_cast<std::size_t>(came_[place] ^ 1)].to;
  };
  while (search()) {
    double most = kUnlimited;
    for (std::size_t at = source + 1; at != source; at = origin(at)) {
      most = std::min(most, arcs_[static_cast<std::size_t>(came_[at])].left);
    }
    for (std::size_t at = source + 1; at != source; at = origin(at)) {
      arcs_[static_cast<std::size_t>(came_[at])].left -= most;
      arcs_[static_cast<std::size_t>(came_[at] ^ 1)].left += most;
    }
    const auto missing = static_cast<std::size_t>(std::max(0, distance_[source + 1]));
    if (missing == 0) value.rate += most;
    value.soft += most * discount_[std::min(missing, discount_.size() - 1)];
  }
  return value;
}

}  // namespace harmonics::inline in_plan
