// All stages that keep a given period, as arcs of a graph whose paths are the plans.
//
// Nodes stand for cuts (with what else a stage must know about its neighbour), in an order that
// every arc follows; node 0 is the start of the model and the last node its end. An arc is a stage
// on `hosts` hosts of one class. A path that takes no more hosts of any class than there are is a
// plan with that period, and for every such plan there is a path that takes no more hosts of any
// class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <harmonics/plan/cost_model.h>

namespace harmonics::inline in_plan {

/// The most arcs (8 bytes each) and nodes (8 bytes, and 8 per price vector) that a graph may have.
inline constexpr std::size_t kMaxStageArcs = 12'000'000;
inline constexpr std::size_t kMaxStageNodes = 500'000;
/// Two times count as equal when they differ by less than this share: sums of layer times carry
/// rounding errors.
inline constexpr double kTimeTolerance = 1e-12;

struct StageArc {
  std::int32_t to = 0;
  std::uint16_t host_class = 0;
  std::uint16_t hosts = 0;
};
/// The class of an arc that is no stage: it passes over a host of a fixed order, or hands over to
/// the next stage.
inline constexpr std::uint16_t kNoHostClass = 0xffff;

/// What the nodes of a graph stand for; see stage_graph_kinds.h.
enum class StageGraphShape { kCuts, kOrder, kHandOver, kSites, kLevels, kPorts };

/// With more classes than this there are ways of their own: graphs of sites, prices that may be
/// found softly (soft_prices.h), a plan before any bound.
inline constexpr std::size_t kFewClasses = 24;

struct StageGraph {
  StageGraphShape shape = StageGraphShape::kCuts;
  std::vector<std::uint32_t> first_arc;  // per node, and one past the last
  std::vector<StageArc> arcs;
  std::vector<std::int32_t> cut;  // per node
  /// With the same hosts left, going on from node v is as good as from any node in (covers[v], v].
  /// Empty: nothing is known.
  std::vector<std::int32_t> covers;
  /// Visits of stages while it was built.
  std::uint64_t work = 0;

  [[nodiscard]] std::size_t nodes() const { return cut.size(); }
  [[nodiscard]] std::int32_t end() const { return static_cast<std::int32_t>(cut.size()) - 1; }
  [[nodiscard]] std::span<const StageArc> arcs_of(std::size_t node) const {
    return {arcs.data() + first_arc[node], first_arc[node + 1] - first_arc[node]};
  }
};

struct StageGraphOptions {
  double period_s = std::numeric_limits<double>::infinity();
  /// Stages may take several hosts of one class; otherwise every stage takes one.
  bool replicate = false;
  /// Leave out arcs that a better one makes needless. Right for questions of feasibility; a search
  /// for the least weight needs all arcs.
  bool only_best = true;
  /// Let nodes know who sends and who receives, so that every transfer can be timed exactly. Always
  /// so where a stage's time depends on its neighbours.
  bool know_neighbours = false;
};

/// Builds graphs over one cost model and given numbers of hosts. Read-only; any thread.
class StageGraphBuilder {
 public:
  /// Keeps a reference to the costs. `capacity`: hosts of each class that may be used; `order` as
  /// in PlanProblem.
  StageGraphBuilder(const CostModel& costs, std::vector<std::uint16_t> capacity,
                    std::vector<std::size_t> order);

  [[nodiscard]] const CostModel& costs() const { return costs_; }
  [[nodiscard]] std::span<const std::uint16_t> capacity() const { return capacity_; }
  /// Whether hosts follow a given order.
  [[nodiscard]] bool ordered() const { return !order_.empty(); }
  /// More arcs or nodes than the ceilings are an `Error` (kResourceExhausted).
  [[nodiscard]] StageGraph build(const StageGraphOptions& options) const;

  /// Whether every transfer of a cut takes the same time, whoever sends and receives.
  [[nodiscard]] bool uniform_links() const;
  /// What an arc adds to the time of a micro-batch from end to end: compute, transfer at the
  /// smaller bandwidth, and latency. For a graph that knows neighbours, or where links are uniform.
  [[nodiscard]] double latency_s(const StageGraph& graph, std::size_t from,
                                 const StageArc& arc) const;
  /// How a stage meets the next one: who receives and how fast each side counts.
  struct Port {
    std::size_t receiver = 0;
    double bytes_per_s_in = 0;    // for the receiver's own time
    double bytes_per_s_link = 0;  // of the transfer itself
    double latency_s = 0;         // likewise
  };
  [[nodiscard]] std::span<const Port> ports() const { return ports_; }
  /// The port through which u hands over to v.
  [[nodiscard]] std::size_t port_between(std::size_t u, std::size_t v) const {
    return port_between_[u * costs_.classes() + v];
  }

 private:
  void make_ports();

  const CostModel& costs_;
  std::vector<std::uint16_t> capacity_;
  std::vector<std::size_t> order_;
  std::vector<Port> ports_;
  std::vector<std::size_t> port_between_;
  std::vector<std::size_t> site_of_;  // empty: classes are few, or each has a site of its own
};

}  // namespace harmonics::inline in_plan
