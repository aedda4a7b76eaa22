// From a plan, or from measured costs, to the parts of a graph.
//
// The layers of a plan are the units of the graph (harmonics/graph/units.h), counted from 1: what
// `harmonics profile` measures and the planner places. Needs no libtorch. Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/graph/deployment.h>
#include <harmonics/graph/graph.h>
#include <harmonics/plan/cost_model.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/plan.h>

namespace harmonics::inline in_place {

/// One part per stage of the plan, in its order, cut by the rules of partition.h. A stage on
/// several hosts is one part, which each of them runs. Stages that do not cover the units of the
/// graph one after the other are an Error (kInvalidArgument) that says what the plan and the graph
/// have, and so is a graph that is not resolved (kFailedPrecondition).
[[nodiscard]] std::vector<HarmonicGraph> partition_graph(const HarmonicGraph& graph,
                                                         const Plan& plan);

/// What was measured for a graph, and what its partitions run on.
struct MeasuredCosts {
  /// As read from models.yml and device_types.yml, or made by the profiler.
  ModelTable models;
  DeviceTypeTable types;
  /// Which measurement counts.
  std::string model;
  std::string dtype = "torch.float32";
  std::int64_t batch_size = 8;
  /// The device type of each partition of the deployment, in its order.
  std::vector<std::string> partition_types;
  CostOptions costs = {};
};

/// Cuts the graph into one part per entry of deploy.partitions, in that order, like auto_partition
/// with weights (place.h), but by what was measured: the slowest part is as fast as any cut between
/// units can make it under the planner's cost model, transfers and memory included. Every part has
/// at least one unit. Weights play no role here.
///
/// Errors: no partitions or more than kMaxPartitions or units, not one device type per partition, a
/// type or model that was not measured for dtype and batch size, a measurement of another number of
/// layers than the graph has units; NoFeasiblePlan (planner.h) when memory or network allow no cut.
[[nodiscard]] std::vector<HarmonicGraph> auto_partition(const HarmonicGraph& graph,
                                                        const DeploymentDescriptor& deploy,
                                                        const MeasuredCosts& measured);

}  // namespace harmonics::inline in_place
