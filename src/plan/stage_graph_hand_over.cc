#include <vector>

#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {
namespace {

// Node 0 is the start. Then, for each inner cut, come the senders and after them the receivers, one
// of each per class; the last node is the end.
class HandOverGraph {
 public:
  HandOverGraph(const CostModel& costs, std::span<const std::uint16_t> capacity,
                std::span<const std::size_t> order, const StageGraphOptions& options)
      : costs_(costs),
        capacity_(capacity),
        options_(options),
        layers_(costs.layers()),
        classes_(costs.classes()),
        ordered_(!order.empty()),
        place_(classes_, order.size()) {
    for (std::size_t k = 0; k < order.size(); ++k) place_[order[k]] = k;
  }

  StageGraph build() {
    graph_.shape = StageGraphShape::kHandOver;
    StageGraphWriter writer(graph_);
    writer.begin_node(0);
    for (std::size_t u = 0; u < classes_; ++u) add_stages(writer, u, 0);
    for (std::size_t i = 1; i < layers_; ++i) {
      for (std::size_t u = 0; u < classes_; ++u) {
        writer.begin_node(static_cast<std::int32_t>(i));
        if (capacity_[u] > 0) add_transfers(writer, u, i);
      }
      for (std::size_t u = 0; u < classes_; ++u) {
        writer.begin_node(static_cast<std::int32_t>(i));
        add_stages(writer, u, i);
      }
    }
    writer.begin_node(static_cast<std::int32_t>(layers_));
    writer.finish();
    return std::move(graph_);
  }

 private:
  std::size_t sender(std::size_t cut, std::size_t u) const {
    return cut == layers_ ? 1 + (layers_ - 1) * 2 * classes_ : 1 + (cut - 1) * 2 * classes_ + u;
  }

  void add_stages(StageGraphWriter& writer, std::size_t u, std::size_t i) {
    const std::uint16_t limit = capacity_[u];
    if (limit == 0) return;
    const StageStart start{u, i, longest_stage_s(options_, limit)};
    for_each_end(costs_, start, graph_.work, [&](std::size_t j) {
      // Where transfers are judged by themselves, only compute is left to judge here.
      const double stage =
          costs_.independent_ends() ? costs_.stage_s(u, i, j) : costs_.compute_s(u, i, j);
      const std::uint16_t hosts = hosts_for(stage, options_, limit);
      if (hosts > 0) writer.arc(sender(j, u), u, hosts);
    });
  }

  void add_transfers(StageGraphWriter& writer, std::size_t u, std::size_t cut) {
    const double longest = options_.period_s * (1 + kTimeTolerance);
    for (std::size_t v = 0; v < classes_; ++v) {
      ++graph_.work;
      if (capacity_[v] == 0 || (ordered_ && place_[u] >= place_[v])) continue;
      // Replicated stages have their own ends in their hosts already (see cost_model.h).
      const double slower = costs_.transfer_s(cut, costs_.bandwidth(u, v));
      if (!costs_.independent_ends() && slower > longest) continue;
      writer.arc(sender(cut, v) + classes_, kNoHostClass, 0);
    }
  }

  const CostModel& costs_;
  std::span<const std::uint16_t> capacity_;
  const StageGraphOptions& options_;
  const std::size_t layers_;
  const std::size_t classes_;
  const bool ordered_;
  std::vector<std::size_t> place_;
  StageGraph graph_;
};

}  // namespace

StageGraph build_hand_over_graph(const CostModel& costs, std::span<const std::uint16_t> capacity,
                                 std::span<const std::size_t> order,
                                 const StageGraphOptions& options) {
  return HandOverGraph(costs, capacity, order, options).build();
}

}  // namespace harmonics::inline in_plan
