#include <algorithm>
#include <vector>

#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {
namespace {

// Node 0 is the start; node 1 + (i - 1) * levels + l is cut i whose transfer goes at the l-th
// bandwidth; the last node is the end. Both ends of a transfer may be faster than its bandwidth,
// which then costs more than it must: the cheapest path goes at the smaller bandwidth of the two.
class LevelGraph {
 public:
  LevelGraph(const CostModel& costs, std::span<const std::uint16_t> capacity,
             const StageGraphOptions& options)
      : costs_(costs), capacity_(capacity), options_(options), layers_(costs.layers()) {
    for (std::size_t u = 0; u < costs.classes(); ++u) {
      if (capacity[u] > 0) levels_.push_back(costs.bandwidth(u));
    }
    std::ranges::sort(levels_);
    levels_.erase(std::unique(levels_.begin(), levels_.end()), levels_.end());
  }

  StageGraph build() {
    graph_.shape = StageGraphShape::kLevels;
    StageGraphWriter writer(graph_);
    writer.begin_node(0);
    for (std::size_t u = 0; u < costs_.classes(); ++u) add_stages(writer, {u, 0, 0});
    for (std::size_t i = 1; i < layers_; ++i) {
      for (const double level : levels_) {
        writer.begin_node(static_cast<std::int32_t>(i));
        for (std::size_t u = 0; u < costs_.classes(); ++u) {
          if (costs_.bandwidth(u) >= level) add_stages(writer, {u, i, level});
        }
      }
    }
    writer.begin_node(static_cast<std::int32_t>(layers_));
    writer.finish();
    return std::move(graph_);
  }

 private:
  struct Start {
    std::size_t host_class;
    std::size_t cut;
    double bytes_per_s;
  };

  std::size_t node(std::size_t cut, std::size_t level) const {
    return 1 + (cut - 1) * levels_.size() + level;
  }

  void add_stages(StageGraphWriter& writer, const Start& start) {
    const auto [u, i, in] = start;
    const std::uint16_t limit = capacity_[u];
    if (limit == 0) return;
    for_each_end(costs_, {u, i, longest_stage_s(options_, limit)}, graph_.work, [&](std::size_t j) {
      const std::size_t ways = j == layers_ ? 1 : levels_.size();
      for (std::size_t out = 0; out < ways; ++out) {
        if (j < layers_ && levels_[out] > costs_.bandwidth(u)) break;
        const double stage = costs_.stage_s(u, i, j, in, levels_[out]);
        const std::uint16_t hosts = hosts_for(stage, options_, limit);
        if (hosts > 0) writer.arc(node(j, out), u, hosts);
      }
    });
  }

  const CostModel& costs_;
  std::span<const std::uint16_t> capacity_;
  const StageGraphOptions& options_;
  const std::size_t layers_;
  std::vector<double> levels_;
  StageGraph graph_;
};

}  // namespace

StageGraph build_level_graph(const CostModel& costs, std::span<const std::uint16_t> capacity,
                             const StageGraphOptions& options) {
  return LevelGraph(costs, capacity, options).build();
}

}  // namespace harmonics::inline in_plan
