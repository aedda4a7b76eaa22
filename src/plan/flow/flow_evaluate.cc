#include <algorithm>
#include <cmath>
#include <queue>

#include <harmonics/base/error.h>
#include <harmonics/plan/flow_plan.h>

namespace harmonics::inline in_plan {
namespace {

constexpr double kNoFlow = 1e-9;  // of the largest capacity
constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();

// Maximum flow by shortest augmenting paths. Host h has the places 2 h (in) and 2 h + 1 (out).
class PathFlow {
 public:
  PathFlow(const FlowProblem& problem, std::span<const FlowRange> ranges)
      : problem_(problem), ranges_(ranges), arcs_(2 * problem.hosts.size() + 2) {
    double largest = 0;
    for (std::size_t h = 0; h < ranges.size(); ++h) {
      if (ranges[h].used()) all_ += rate_of(h);
      if (ranges[h].used()) largest = std::max(largest, rate_of(h));
    }
    for (std::size_t h = 0; h < ranges.size(); ++h) {
      if (ranges[h].used()) add_host(h);
    }
    source_ = 2 * ranges.size();
    least_ = kNoFlow * largest;
  }

  FlowEvaluation run() {
    FlowEvaluation found;
    while (true) {
      const double more = augment();
      if (more <= 0) break;
      found.rate += more;
    }
    for (std::size_t from = 0; from < arcs_.size(); ++from) collect(from, found);
    return found;
  }

 private:
  struct Arc {
    std::size_t to;
    double left;
    double capacity;
    std::size_t back;
  };

  double rate_of(std::size_t h) const {
    return problem_.rate(problem_.hosts[h].kind, ranges_[h].first_cut, ranges_[h].last_cut);
  }

  void add(std::size_t from, std::size_t to, double capacity) {
    if (!(capacity > 0)) return;
    // Nothing needs more than all hosts together compute; a larger number would lose digits.
    const double most = std::min(capacity, all_);
    arcs_[from].push_back({to, most, most, arcs_[to].size()});
    arcs_[to].push_back({from, 0, 0, arcs_[from].size() - 1});
  }

  void add_host(std::size_t h) {
    const FlowRange range = ranges_[h];
    const std::size_t source = 2 * ranges_.size();
    add(2 * h, 2 * h + 1, rate_of(h));
    if (range.first_cut == 0) add(source, 2 * h, problem_.link_rate(problem_.source(), h, 0));
    if (range.last_cut == problem_.layers) {
      add(2 * h + 1, source + 1, problem_.link_rate(h, problem_.sink(), problem_.layers));
      return;
    }
    for (std::size_t next = 0; next < ranges_.size(); ++next) {
      if (next == h || !ranges_[next].used() || ranges_[next].first_cut != range.last_cut) continue;
      add(2 * h + 1, 2 * next, problem_.link_rate(h, next, range.last_cut));
    }
  }

  // Fills `reached_`: the arc's end by which each place was reached first.
  bool search() {
    came_.assign(arcs_.size(), {kNoEnd, 0});
    came_[source_] = {source_, 0};
    std::queue<std::size_t> open;
    open.push(source_);
    while (!open.empty()) {
      const std::size_t at = open.front();
      open.pop();
      for (std::size_t k = 0; k < arcs_[at].size(); ++k) {
        const Arc& arc = arcs_[at][k];
        if (arc.left <= least_ || came_[arc.to].first != kNoEnd) continue;
        came_[arc.to] = {at, k};
        open.push(arc.to);
      }
    }
    return came_[source_ + 1].first != kNoEnd;
  }

  double augment() {
    if (!search()) return 0;
    double most = std::numeric_limits<double>::infinity();
    for (std::size_t at = source_ + 1; at != source_; at = came_[at].first) {
      most = std::min(most, arcs_[came_[at].first][came_[at].second].left);
    }
    for (std::size_t at = source_ + 1; at != source_; at = came_[at].first) {
      Arc& arc = arcs_[came_[at].first][came_[at].second];
      arc.left -= most;
      arcs_[arc.to][arc.back].left += most;
    }
    return most;
  }

  std::size_t end_of(std::size_t place) const {
    return place >= source_ ? problem_.source() + (place - source_) : place / 2;
  }

  void collect(std::size_t from, FlowEvaluation& found) const {
    const bool near = came_[from].first != kNoEnd;
    for (const Arc& arc : arcs_[from]) {
      if (arc.capacity == 0) continue;
      const bool inside = end_of(from) == end_of(arc.to);
      const FlowUse use{end_of(from), end_of(arc.to), arc.capacity - arc.left};
      if (!inside && use.rate > least_) found.uses.push_back(use);
      if (!near || came_[arc.to].first != kNoEnd) continue;
      if (inside) {
        found.full_hosts.push_back(use.from);
      } else {
        found.full_links.push_back(use);
      }
    }
  }

  const FlowProblem& problem_;
  std::span<const FlowRange> ranges_;
  std::vector<std::vector<Arc>> arcs_;
  std::vector<std::pair<std::size_t, std::size_t>> came_;
  std::size_t source_ = 0;
  double all_ = 0;
  double least_ = 0;
};

// Takes the widest way that is left.
FlowRoute widest_route(const FlowProblem& problem, std::vector<FlowUse>& uses) {
  const std::size_t ends = problem.hosts.size() + 2;
  std::vector<double> width(ends, 0);
  std::vector<std::size_t> by(ends, kNoEnd);
  width[problem.source()] = std::numeric_limits<double>::infinity();
  for (std::size_t round = 0; round < ends; ++round) {
    bool changed = false;
    for (std::size_t k = 0; k < uses.size(); ++k) {
      const double here = std::min(width[uses[k].from], uses[k].rate);
      if (here <= width[uses[k].to]) continue;
      width[uses[k].to] = here;
      by[uses[k].to] = k;
      changed = true;
    }
    if (!changed) break;
  }
  FlowRoute route;
  route.rate = width[problem.sink()];
  if (!(route.rate > 0)) return route;
  for (std::size_t at = problem.sink(); at != problem.source();) {
    FlowUse& use = uses[by[at]];
    use.rate -= route.rate;
    at = use.from;
    if (at != problem.source()) route.hosts.push_back(at);
  }
  std::ranges::reverse(route.hosts);
  return route;
}

}  // namespace

FlowEvaluation evaluate_flow(const FlowProblem& problem, std::span<const FlowRange> ranges) {
  if (ranges.size() != problem.hosts.size()) {
    fail(ErrorCode::kInvalidArgument, "{} ranges for {} hosts", ranges.size(),
         problem.hosts.size());
  }
  for (std::size_t h = 0; h < ranges.size(); ++h) {
    const FlowRange range = ranges[h];
    if (!range.used() && range.first_cut == range.last_cut) continue;
    if (range.last_cut <= problem.layers &&
        problem.rate(problem.hosts[h].kind, range.first_cut, range.last_cut) > 0) {
      continue;
    }
    fail(ErrorCode::kInvalidArgument, "host '{}' cannot hold the layers {} to {}",
         problem.hosts[h].name, range.first_cut + 1, range.last_cut);
  }
  return PathFlow(problem, ranges).run();
}

std::vector<FlowRoute> flow_routes(const FlowProblem& problem, const FlowEvaluation& evaluation) {
  std::vector<FlowUse> uses = evaluation.uses;
  std::vector<FlowRoute> routes;
  // Every route empties a link.
  for (std::size_t k = 0; k <= evaluation.uses.size(); ++k) {
    FlowRoute route = widest_route(problem, uses);
    if (!(route.rate > kNoFlow * evaluation.rate)) break;
    routes.push_back(std::move(route));
  }
  return routes;
}

}  // namespace harmonics::inline in_plan
