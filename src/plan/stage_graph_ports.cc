#include <algorithm>
#include <vector>

#include "stage_graph_kinds.h"

namespace harmonics::inline in_plan {
namespace {

// Node 0 is the start; node 1 + (i - 1) * ports + p is cut i entered through port p, whose receiver
// runs the next stage; the last node is the end.
class PortGraph {
 public:
  PortGraph(const StageGraphBuilder& builder, std::span<const std::size_t> order,
            const StageGraphOptions& options)
      : builder_(builder), costs_(builder.costs()), options_(options), layers_(costs_.layers()) {
    place_.assign(costs_.classes(), order.empty() ? 0 : order.size());
    for (std::size_t k = 0; k < order.size(); ++k) place_[order[k]] = k;
    ordered_ = !order.empty();
  }

  StageGraph build() {
    graph_.shape = StageGraphShape::kPorts;
    StageGraphWriter writer(graph_);
    writer.begin_node(0);
    for (std::size_t u = 0; u < costs_.classes(); ++u) add_stages(writer, u, 0, 0);
    for (std::size_t i = 1; i < layers_; ++i) {
      for (const StageGraphBuilder::Port& port : builder_.ports()) {
        writer.begin_node(static_cast<std::int32_t>(i));
        add_stages(writer, port.receiver, i, port.bytes_per_s_in);
      }
    }
    writer.begin_node(static_cast<std::int32_t>(layers_));
    writer.finish();
    return std::move(graph_);
  }

 private:
  std::size_t node(std::size_t cut, std::size_t port) const {
    return 1 + (cut - 1) * builder_.ports().size() + port;
  }
  bool may_follow(std::size_t u, std::size_t v) const {
    return builder_.capacity()[v] > 0 && (!ordered_ || place_[u] < place_[v]);
  }

  void add_stages(StageGraphWriter& writer, std::size_t u, std::size_t i, double bytes_per_s_in) {
    const std::uint16_t limit = builder_.capacity()[u];
    if (limit == 0) return;
    const StageStart start{u, i, longest_stage_s(options_, limit)};
    for_each_end(costs_, start, graph_.work, [&](std::size_t j) {
      if (j == layers_) {
        const double stage = costs_.stage_s(u, i, j, bytes_per_s_in, 0);
        const std::uint16_t hosts = hosts_for(stage, options_, limit);
        if (hosts > 0) writer.arc(node(layers_, 0), u, hosts);
        return;
      }
      for (std::size_t v = 0; v < costs_.classes(); ++v) {
        ++graph_.work;
        if (!may_follow(u, v)) continue;
        const double stage = costs_.stage_s(u, i, j, bytes_per_s_in, costs_.end_bandwidth(u, v));
        const std::uint16_t hosts = hosts_for(stage, options_, limit);
        if (hosts > 0) writer.arc(node(j, builder_.port_between(u, v)), u, hosts);
      }
    });
  }

  const StageGraphBuilder& builder_;
  const CostModel& costs_;
  const StageGraphOptions& options_;
  const std::size_t layers_;
  std::vector<std::size_t> place_;
  bool ordered_ = false;
  StageGraph graph_;
};

}  // namespace

StageGraph build_port_graph(const StageGraphBuilder& builder, std::span<const std::size_t> order,
                            const StageGraphOptions& options) {
  return PortGraph(builder, order, options).build();
}

}  // namespace harmonics::inline in_plan
