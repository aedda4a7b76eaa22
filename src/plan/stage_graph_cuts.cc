#include <algorithm>
#include <limits>
#include <vector>

#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {
namespace {

// Builds the graph whose nodes are the cuts. Most stages are needless: if going on from cut k is as
// good as from an earlier cut j, a stage that could end at k need not end at j.
class CutGraph {
 public:
  CutGraph(const CostModel& costs, std::span<const std::uint16_t> capacity,
           const StageGraphOptions& options)
      : costs_(costs), capacity_(capacity), options_(options), layers_(costs.layers()) {}

  StageGraph build() {
    for (std::size_t u = 0; u < costs_.classes(); ++u) find_reach(u);
    if (options_.only_best) find_covers();
    StageGraphWriter writer(graph_);
    for (std::size_t i = 0; i < layers_; ++i) {
      writer.begin_node(static_cast<std::int32_t>(i));
      for (std::size_t u = 0; u < costs_.classes(); ++u) add_stages(writer, u, i);
    }
    writer.begin_node(static_cast<std::int32_t>(layers_));
    writer.finish();
    return std::move(graph_);
  }

 private:
  struct Reach {
    // Per cut: the furthest cut to which compute and the layers' own memory let a stage run, and
    // the furthest at which one really can end (the cut itself when none can).
    std::vector<std::size_t> at_most;
    std::vector<std::size_t> allowed;
    bool memory_binds = false;  // with its buffers, a stage within at_most may not fit
  };
  struct End {
    std::size_t cut;
    std::uint16_t hosts;
  };

  std::uint16_t hosts_of(std::size_t u, std::size_t i, std::size_t j) const {
    if (!costs_.allowed(u, i, j)) return 0;
    return hosts_for(costs_.stage_s(u, i, j), options_, capacity_[u]);
  }

  void find_reach(std::size_t u) {
    Reach reach{std::vector<std::size_t>(layers_), std::vector<std::size_t>(layers_), false};
    const double longest = longest_stage_s(options_, capacity_[u]);
    std::size_t j = 0;
    for (std::size_t i = 0; i < layers_; ++i) {
      j = std::max(i, j);
      if (capacity_[u] > 0) {
        while (j < layers_ && costs_.compute_s(u, i, j + 1) <= longest &&
               costs_.layer_memory_bytes(i, j + 1) < costs_.capacity_bytes(u)) {
          ++j;
        }
      }
      reach.at_most[i] = j;
      reach.memory_binds |= costs_.most_memory_bytes(i, j) >= costs_.capacity_bytes(u);
      std::size_t end = j;
      while (end > i && hosts_of(u, i, end) == 0) --end;
      graph_.work += j - end + 1;
      reach.allowed[i] = end;
    }
    reach_.push_back(std::move(reach));
  }

  // Whether whatever class u can do from cut k past cut j it can also do from cut j on, with no
  // more hosts.
  bool can_take_over(std::size_t u, std::size_t k, std::size_t j) const {
    const double receive = costs_.transfer_s(j, costs_.bandwidth(u));
    const bool no_slower =
        receive <= options_.period_s * (1 + kTimeTolerance) ||
        (options_.replicate && k > 0 && receive <= costs_.transfer_s(k, costs_.bandwidth(u)));
    if (!no_slower) return false;
    // The memory of (k, e] minus that of (j, e] is the same for all e.
    return !reach_[u].memory_binds ||
           costs_.memory_bytes(j, layers_) <= costs_.memory_bytes(k, layers_);
  }

  void find_covers() {
    graph_.covers.assign(layers_ + 1, -1);
    for (std::size_t u = 0; u < costs_.classes(); ++u) {
      for (std::size_t j = 1; j < layers_; ++j) find_cover(u, j);
    }
  }

  // The last cut before j from which class u does what it cannot do from j on.
  void find_cover(std::size_t u, std::size_t j) {
    for (std::size_t above = j; above > 0; --above) {
      const std::size_t k = above - 1;
      if (reach_[u].at_most[k] <= j) return;
      if (static_cast<std::int32_t>(k) <= graph_.covers[j]) return;
      ++graph_.work;
      if (reach_[u].allowed[k] > j && !can_take_over(u, k, j)) {
        graph_.covers[j] = static_cast<std::int32_t>(k);
        return;
      }
      if (!reach_[u].memory_binds && !options_.replicate && can_take_over(u, k, j)) return;
    }
  }

  // Whether one of the ends already kept, all further, takes no more hosts and covers this one.
  bool needless(std::size_t j, std::uint16_t hosts) const {
    for (auto end = kept_.rbegin(); end != kept_.rend() && end->hosts <= hosts; ++end) {
      if (graph_.covers[end->cut] < static_cast<std::int32_t>(j)) return true;
    }
    return false;
  }

  // Keeps the list sorted by falling numbers of hosts; the fewest are asked for most.
  void keep(End end) {
    auto place = kept_.end();
    while (place != kept_.begin() && (place - 1)->hosts < end.hosts) --place;
    kept_.insert(place, end);
  }

  void add_stages(StageGraphWriter& writer, std::size_t u, std::size_t i) {
    kept_.clear();
    for (std::size_t j = reach_[u].allowed[i]; j > i; --j) {
      ++graph_.work;
      const std::uint16_t hosts = hosts_of(u, i, j);
      if (hosts == 0) continue;
      if (options_.only_best) {
        if (needless(j, hosts)) {
          if (hosts == 1 && needless(i + 1, 1)) break;
          continue;
        }
        keep({j, hosts});
      }
      writer.arc(j, u, hosts);
      if (options_.only_best && hosts == 1 && needless(i + 1, 1)) break;
    }
  }

  const CostModel& costs_;
  std::span<const std::uint16_t> capacity_;
  const StageGraphOptions& options_;
  const std::size_t layers_;
  std::vector<Reach> reach_;
  std::vector<End> kept_;
  StageGraph graph_;
};

}  // namespace

StageGraph build_cut_graph(const CostModel& costs, std::span<const std::uint16_t> capacity,
                           const StageGraphOptions& options) {
  return CutGraph(costs, capacity, options).build();
}

}  // namespace harmonics::inline in_plan
