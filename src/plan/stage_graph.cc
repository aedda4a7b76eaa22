#include "stage_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>

#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {

std::uint16_t hosts_for(double stage_s, const StageGraphOptions& options, std::uint16_t limit) {
  if (limit == 0) return 0;
  if (stage_s <= options.period_s * (1 + kTimeTolerance)) return 1;
  if (!options.replicate || !(options.period_s > 0)) return 0;
  const double hosts = std::ceil(stage_s / options.period_s * (1 - kTimeTolerance));
  return hosts <= limit ? static_cast<std::uint16_t>(hosts) : 0;
}

void StageGraphWriter::begin_node(std::int32_t cut) {
  if (graph_.nodes() == kMaxStageNodes) {
    fail(ErrorCode::kResourceExhausted,
         "more than {} places between stages: group layers, or order fewer hosts", kMaxStageNodes);
  }
  graph_.first_arc.push_back(static_cast<std::uint32_t>(graph_.arcs.size()));
  graph_.cut.push_back(cut);
}

void StageGraphWriter::arc(std::size_t to, std::size_t host_class, std::uint16_t hosts) {
  if (graph_.arcs.size() == kMaxStageArcs) {
    fail(ErrorCode::kResourceExhausted,
         "more than {} possible stages: group layers, or give fewer kinds of hosts", kMaxStageArcs);
  }
  graph_.arcs.push_back(
      {static_cast<std::int32_t>(to), static_cast<std::uint16_t>(host_class), hosts});
}

void StageGraphWriter::finish() {
  graph_.first_arc.push_back(static_cast<std::uint32_t>(graph_.arcs.size()));
}

StageGraphBuilder::StageGraphBuilder(const CostModel& costs, std::vector<std::uint16_t> capacity,
                                     std::vector<std::size_t> order)
    : costs_(costs), capacity_(std::move(capacity)), order_(std::move(order)) {
  make_ports();
  if (costs_.classes() <= kFewClasses) return;
  site_of_ = sites_of(costs_);
  if (*std::ranges::max_element(site_of_) + 1 == costs_.classes()) site_of_.clear();
}

// Ports that nothing tells apart are one, so that there are few nodes.
void StageGraphBuilder::make_ports() {
  const std::size_t classes = costs_.classes();
  port_between_.resize(classes * classes);
  for (std::size_t v = 0; v < classes; ++v) {
    const auto first = static_cast<std::ptrdiff_t>(ports_.size());
    for (std::size_t u = 0; u < classes; ++u) {
      const Port port{v, costs_.end_bandwidth(v, u), costs_.bandwidth(u, v),
                      costs_.link_latency_s(u, v)};
      const auto same = std::find_if(ports_.begin() + first, ports_.end(), [&](const Port& other) {
        return other.bytes_per_s_in == port.bytes_per_s_in &&
               other.bytes_per_s_link == port.bytes_per_s_link && other.latency_s == port.latency_s;
      });
      port_between_[u * classes + v] = static_cast<std::size_t>(same - ports_.begin());
      if (same == ports_.end()) ports_.push_back(port);
    }
  }
}

StageGraph StageGraphBuilder::build(const StageGraphOptions& options) const {
  const bool independent = costs_.independent_ends();
  if (independent && !options.know_neighbours) {
    if (!order_.empty()) return build_ordered_graph(costs_, capacity_, order_, options);
    return build_cut_graph(costs_, capacity_, options);
  }
  // With overlap and one host per stage, a transfer keeps the period or not whatever else its two
  // stages do.
  const bool separate_transfers = costs_.overlap() == Overlap::kFull && !options.replicate;
  if (separate_transfers && !options.know_neighbours && order_.empty() && !site_of_.empty()) {
    return build_site_graph(costs_, capacity_, site_of_, options);
  }
  if (independent || separate_transfers) {
    return build_hand_over_graph(costs_, capacity_, order_, options);
  }
  if (options.replicate && !options.know_neighbours && order_.empty() && !costs_.has_links()) {
    return build_level_graph(costs_, capacity_, options);
  }
  return build_port_graph(*this, order_, options);
}

bool StageGraphBuilder::uniform_links() const {
  return std::ranges::all_of(ports_, [&](const Port& port) {
    return port.bytes_per_s_link == ports_.front().bytes_per_s_link &&
           port.latency_s == ports_.front().latency_s;
  });
}

double StageGraphBuilder::latency_s(const StageGraph& graph, std::size_t from,
                                    const StageArc& arc) const {
  const auto to = static_cast<std::size_t>(arc.to);
  const auto i = static_cast<std::size_t>(graph.cut[from]);
  const auto j = static_cast<std::size_t>(graph.cut[to]);
  if (arc.host_class == kNoHostClass) {
    if (graph.shape != StageGraphShape::kHandOver) return 0;
    const std::size_t sender = hand_over_class(from, costs_.classes());
    const std::size_t receiver = hand_over_class(to, costs_.classes());
    return costs_.transfer_s(j, costs_.bandwidth(sender, receiver)) +
           costs_.link_latency_s(sender, receiver);
  }
  const double compute = costs_.compute_s(arc.host_class, i, j);
  if (j == costs_.layers() || graph.shape == StageGraphShape::kHandOver) return compute;
  const std::size_t port = graph.shape == StageGraphShape::kPorts ? (to - 1) % ports_.size() : 0;
  return compute + costs_.transfer_s(j, ports_[port].bytes_per_s_link) + ports_[port].latency_s;
}

}  // namespace harmonics::inline in_plan
