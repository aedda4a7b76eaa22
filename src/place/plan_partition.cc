#include <harmonics/place/plan_partition.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/place/place.h>
#include <harmonics/plan/cut_bytes.h>
#include <harmonics/plan/fixed_order.h>
#include <harmonics/plan/planner.h>

namespace harmonics::inline in_place {
namespace {

const LayerTimes& times_of(const MeasuredCosts& measured, const std::string& type) {
  const auto known = measured.types.find(type);
  if (known == measured.types.end()) {
    fail(ErrorCode::kNotFound, "device type '{}' was not measured; there are: {}", type,
         listed(std::views::keys(measured.types)));
  }
  const auto profiles = known->second.models.find(measured.model);
  if (profiles != known->second.models.end()) {
    for (const LayerTimes& times : profiles->second) {
      if (times.dtype == measured.dtype && times.batch_size == measured.batch_size) return times;
    }
  }
  fail(ErrorCode::kNotFound,
       "device type '{}' was not measured for model '{}', {}, batch size {}: run 'harmonics "
       "profile' "
       "there",
       type, measured.model, measured.dtype, measured.batch_size);
}

void check_deployment(const DeploymentDescriptor& deploy, const MeasuredCosts& measured,
                      std::size_t units) {
  const std::size_t parts = deploy.partitions.size();
  if (parts == 0 || parts > kMaxPartitions || parts > units) {
    fail(ErrorCode::kInvalidArgument,
         "the deployment has {} partitions; a graph with {} units takes 1 to {}", parts, units,
         std::min(units, kMaxPartitions));
  }
  if (measured.partition_types.size() != parts) {
    fail(ErrorCode::kInvalidArgument,
         "the deployment has {} partitions, but device types are given for {}: name one per "
         "partition",
         parts, measured.partition_types.size());
  }
}

// What the partitions run on: a class per device type, and which one is whose.
struct DeployedClasses {
  PlanProblem problem;
  std::vector<std::size_t> class_of;  // by partition
};

void add_partition(const MeasuredCosts& measured, const std::string& type,
                   DeployedClasses& deployment) {
  std::vector<HostClass>& classes = deployment.problem.classes;
  const auto known = std::ranges::find(classes, type, &HostClass::type);
  const auto number = static_cast<std::size_t>(known - classes.begin());
  if (known == classes.end()) {
    const LayerTimes& times = times_of(measured, type);
    const DeviceTypeProfile& device = measured.types.at(type);
    classes.push_back({.type = type,
                       .hosts = {},
                       .bandwidth_mbps = device.bandwidth_mbps,
                       .memory_mb = device.memory_mb,
                       .layer_time_s = times.time_s,
                       .barred = {}});
  }
  classes[number].hosts.push_back(format("partition {}", deployment.class_of.size()));
  deployment.class_of.push_back(number);
}

DeployedClasses deployed_classes(const MeasuredCosts& measured, std::size_t units) {
  const auto found = measured.models.find(measured.model);
  if (found == measured.models.end()) {
    fail(ErrorCode::kNotFound, "model '{}' was not measured; there are: {}", measured.model,
         listed(std::views::keys(measured.models)));
  }
  const ModelProfile& model = found->second;
  if (model.layers() != units) {
    fail(ErrorCode::kFailedPrecondition,
         "model '{}' was measured with {} layers, the graph has {} units: profile this graph",
         measured.model, model.layers(), units);
  }
  DeployedClasses deployment;
  PlanProblem& problem = deployment.problem;
  problem.model = measured.model;
  problem.dtype = measured.dtype;
  problem.batch_size = measured.batch_size;
  problem.layer_memory_mb = model.memory_mb;
  set_cut_bytes(model, problem);
  for (const std::string& type : measured.partition_types) {
    add_partition(measured, type, deployment);
  }
  return deployment;
}

}  // namespace

std::vector<HarmonicGraph> partition_graph(const HarmonicGraph& graph, const Plan& plan) {
  const std::vector<Unit> units = graph_units(graph);
  std::vector<std::size_t> first_layers;
  std::size_t next = 1;
  for (const PlanStage& stage : plan.stages) {
    if (stage.first_layer != next || stage.last_layer < stage.first_layer ||
        stage.last_layer > units.size()) {
      fail(ErrorCode::kInvalidArgument,
           "the plan's stage [{}, {}] does not fit graph '{}': layer {} comes next, and there are "
           "{}",
           stage.first_layer, stage.last_layer, graph.name(), next, units.size());
    }
    first_layers.push_back(units[stage.first_layer - 1].first_layer);
    next = stage.last_layer + 1;
  }
  if (next != units.size() + 1 || units.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "the plan places {} layers, graph '{}' has {}: make the plan from a profile of this graph",
         next - 1, graph.name(), units.size());
  }
  return cut_graph(graph, first_layers);
}

std::vector<HarmonicGraph> auto_partition(const HarmonicGraph& graph,
                                          const DeploymentDescriptor& deploy,
                                          const MeasuredCosts& measured) {
  const std::vector<Unit> units = graph_units(graph);
  check_deployment(deploy, measured, units.size());
  const DeployedClasses deployment = deployed_classes(measured, units.size());
  const CostModel costs(deployment.problem, measured.costs);
  const Placement placement = place_in_order(costs, deployment.class_of);
  std::vector<std::size_t> first_layers;
  for (const PlacedStage& stage : placement) {
    first_layers.push_back(units[stage.first_cut].first_layer);
  }
  if (first_layers.empty()) {
    throw NoFeasiblePlan(
        format("graph '{}' cannot be cut for the device types {} in this order: no cut fits their "
               "memory and network",
               graph.name(), listed(measured.partition_types)));
  }
  log_info("place", "graph '{}' goes to {} partitions ({}), {:.6f} s per micro-batch", graph.name(),
           first_layers.size(), listed(measured.partition_types), period_of(costs, placement));
  return cut_graph(graph, first_layers);
}

}  // namespace harmonics::inline in_place
