#include "pipeline_plan.h"

#include <algorithm>
#include <numeric>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/units.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/place/profile_memory.h>
#include <harmonics/plan/fixed_order.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/planner.h>

#include "unit_times.h"

namespace harmonics::inline in_server {
namespace {

/// Orders of the stages are all tried while they are no more than this.
constexpr std::size_t kMaxTriedOrders = 120;
constexpr double kBytesPerNumber = 4;
/// What a worker that tells nothing of its memory may hold.
constexpr double kUnknownMemoryMb = 1 << 20;

std::int64_t setting(const PipelineSpec& spec, std::string_view key, std::int64_t otherwise) {
  for (const auto& [name, text] : spec.settings) {
    if (name != key) continue;
    const auto value = number_from<std::int64_t>(text);
    if (!value || *value < 1) {
      fail(ErrorCode::kInvalidArgument, "pipeline: {} is '{}', must be a whole number from 1 on",
           key, text);
    }
    return *value;
  }
  return otherwise;
}

bool on_one_machine(const std::vector<StagePlace>& places) {
  const auto host = [](const StagePlace& one) {
    const std::string& address = one.place.spec.address;
    return address.substr(0, address.rfind(':'));
  };
  return std::ranges::all_of(places,
                             [&](const StagePlace& one) { return host(one) == host(places[0]); });
}

double memory_mb(const StagePlace& place) {
  const WorkerSpec& spec = place.place.spec;
  double memory = spec.memory_mb == 0 ? kUnknownMemoryMb : static_cast<double>(spec.memory_mb);
  place.place.devices.each([&](DeviceId id) {
    memory = std::min(memory, static_cast<double>(spec.devices.at(id.value).memory_mb));
  });
  return memory;
}

/// The planning problem, and which place each host of it is.
class Problem {
 public:
  Problem(const PipelineSpec& spec, const HarmonicGraph& graph,
          const std::vector<StagePlace>& places)
      : graph_(graph),
        mode_(spec.infer ? ProfileMode::kInference : ProfileMode::kTraining),
        units_(graph_units(graph)),
        places_(places) {
    batch_ = static_cast<double>(micro_batch_of(spec));
    problem_.model = graph.name();
    problem_.dtype = "torch.float32";
    problem_.batch_size = micro_batch_of(spec);
    add_layers();
    const bool local = on_one_machine(places);
    std::vector<std::vector<double>> times =
        unit_times(units_, places, batch_, spec.infer ? 1 : kTrainingPasses);
    for (std::size_t i = 0; i < places.size(); ++i) add_place(i, local, std::move(times[i]));
    check_problem(problem_);
  }

  [[nodiscard]] const PlanProblem& numbers() const { return problem_; }
  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }
  [[nodiscard]] std::size_t class_of(std::size_t place) const { return class_of_[place]; }
  /// Seconds that the whole graph takes there.
  [[nodiscard]] double total_s(std::size_t place) const {
    const auto& times = problem_.classes[class_of_[place]].layer_time_s;
    return std::accumulate(times.begin(), times.end(), 0.0);
  }

 private:
  void add_layers() {
    std::vector<std::size_t> first_layers;
    for (const Unit& unit : units_) first_layers.push_back(unit.first_layer);
    for (const HarmonicGraph& part : cut_graph(graph_, first_layers)) {
      const UnitMemory memory = part_memory(part, mode_, problem_.batch_size, TrainingMemory{});
      problem_.layer_memory_mb.push_back(static_cast<double>(memory.total()) / kBytesPerMegabyte);
    }
    const double bytes = batch_ * kBytesPerNumber;
    problem_.cut_bytes.push_back(static_cast<double>(input_elements(graph_)) * bytes);
    for (const std::int64_t elements : crossing_elements(graph_)) {
      problem_.cut_bytes.push_back(static_cast<double>(elements) * bytes);
    }
    problem_.tied_bytes.push_back(0);
    for (const std::int64_t elements : tied_elements(graph_)) {
      problem_.tied_bytes.push_back(static_cast<double>(elements) * kBytesPerNumber);
    }
  }

  // Hosts that nothing tells apart are one class: that is what makes planning quick.
  void add_place(std::size_t index, bool local, std::vector<double> times) {
    const StagePlace& place = places_[index];
    HostClass host{.type = place.place.spec.name,
                   .hosts = {},
                   .bandwidth_mbps = local ? kEstimatedLocalMbps : kEstimatedNetworkMbps,
                   .memory_mb = memory_mb(place),
                   .layer_time_s = std::move(times),
                   .barred = {}};
    if (place.measured && place.measured->bandwidth_mbps > 0) {
      host.bandwidth_mbps = place.measured->bandwidth_mbps;
    }
    const auto same = std::ranges::find_if(problem_.classes, [&](const HostClass& one) {
      return one.bandwidth_mbps == host.bandwidth_mbps && one.memory_mb == host.memory_mb &&
             one.layer_time_s == host.layer_time_s;
    });
    class_of_.push_back(static_cast<std::size_t>(same - problem_.classes.begin()));
    HostClass& own = same == problem_.classes.end() ? problem_.classes.emplace_back(host) : *same;
    own.hosts.push_back(place.place.spec.name);
  }

  const HarmonicGraph& graph_;
  const ProfileMode mode_;
  const std::vector<Unit> units_;
  const std::vector<StagePlace>& places_;
  double batch_ = 1;
  PlanProblem problem_;
  std::vector<std::size_t> class_of_;
};

struct Found {
  Placement placement;
  bool proven = false;
};

std::size_t orders_of(std::size_t count) {
  std::size_t orders = 1;
  for (std::size_t i = 2; i <= count && orders <= kMaxTriedOrders; ++i) orders *= i;
  return orders;
}

/// The best cut for exactly `stages` stages on the fastest places, over the orders of these.
Placement place_stages(const Problem& problem, const CostModel& costs, std::size_t places,
                       std::size_t stages) {
  std::vector<std::size_t> fastest(places);
  std::iota(fastest.begin(), fastest.end(), 0);
  std::ranges::stable_sort(fastest, {}, [&](std::size_t place) { return problem.total_s(place); });
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < stages; ++i) order.push_back(problem.class_of(fastest[i]));
  const bool all_orders = orders_of(stages) <= kMaxTriedOrders;
  if (all_orders) std::ranges::sort(order);
  Placement best;
  double period = 0;
  do {
    Placement placement = place_in_order(costs, order);
    if (placement.empty()) continue;
    const double own = period_of(costs, placement);
    if (!best.empty() && own >= period) continue;
    best = std::move(placement);
    period = own;
  } while (all_orders && std::ranges::next_permutation(order).found);
  if (best.empty()) {
    throw NoFeasiblePlan(
        format("no cut into {} stages fits the memory and network of the workers", stages));
  }
  return best;
}

Found find_placement(const PipelineSpec& spec, const Problem& problem, const CostModel& costs,
                     std::size_t places) {
  if (spec.stages == 0) {
    PlanOutcome outcome = make_plan(problem.numbers(), {});
    return {std::move(outcome.placement), outcome.proven};
  }
  const std::size_t stages = std::min<std::size_t>(spec.stages, places);
  return {place_stages(problem, costs, places, stages), false};
}

/// The files that each stage makes of what leaves the graph there.
std::vector<Json> stage_outputs(const PipelineSpec& spec, const HarmonicGraph& graph,
                                const Plan& plan) {
  std::vector<Json> all;
  std::size_t found = 0;
  for (const HarmonicGraph& part : partition_graph(graph, plan)) {
    Json& files = all.emplace_back(Json::array());
    for (const auto& [name, output] : spec.outputs) {
      if (std::ranges::find(part.consumers(), name, &ConsumerNode::name) ==
          part.consumers().end()) {
        continue;
      }
      files.push(output_file(output));
      ++found;
    }
  }
  if (found == spec.outputs.size()) return all;
  fail(ErrorCode::kInvalidArgument,
       "an output of the pipeline is none of graph '{}', which has: {}", graph.name(),
       listed(graph.consumers(), &ConsumerNode::name));
}

Json stages_json(const Problem& problem, const CostModel& costs, const Placement& placement,
                 const Plan& plan) {
  Json stages = Json::array();
  for (std::size_t k = 0; k < placement.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    const StageCosts cost = stage_costs(costs, placement, k);
    Json layers = Json::array();
    layers.push(static_cast<std::int64_t>(stage.first_layer));
    layers.push(static_cast<std::int64_t>(stage.last_layer));
    Json one;
    one.set("worker", stage.hosts.front()).set("layers", std::move(layers));
    one.set("from", problem.units()[stage.first_layer - 1].name);
    one.set("to", problem.units()[stage.last_layer - 1].name);
    one.set("compute_s", cost.compute_s).set("receive_s", cost.receive_s);
    one.set("send_s", cost.send_s).set("period_s", cost.period_s);
    // At a byte a second: what crosses the cut behind it, for one micro-batch.
    const bool hands_on = k + 1 < placement.size();
    one.set("send_bytes", hands_on ? costs.transfer_s(placement[k].last_cut, 1) : 0.0);
    one.set("memory_mb", cost.memory_bytes / kBytesPerMegabyte);
    one.set("capacity_mb", cost.capacity_bytes / kBytesPerMegabyte);
    stages.push(std::move(one));
  }
  return stages;
}

Json with_outputs(const Json& stages, std::vector<Json> outputs) {
  Json all = Json::array();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    Json one = stages.as_array().at(k);
    if (!outputs[k].as_array().empty()) one.set("out", std::move(outputs[k]));
    all.push(std::move(one));
  }
  return all;
}

/// What the worker's times rest on.
const char* basis_of(const StagePlace& place, bool infer) {
  if (place.measured) return "profile";
  if (place.trained.empty()) return "estimate";
  return infer ? "run" : "training";
}

Json workers_json(const PipelineSpec& spec, const Problem& problem,
                  const std::vector<StagePlace>& places) {
  Json workers = Json::array();
  for (std::size_t i = 0; i < places.size(); ++i) {
    workers.push(Json()
                     .set("worker", places[i].place.spec.name)
                     .set("measured", is_measured(places[i]))
                     .set("basis", basis_of(places[i], spec.infer))
                     .set("whole_graph_s", problem.total_s(i)));
  }
  return workers;
}

HarmonicGraph graph_of(const PipelineSpec& spec) {
  HarmonicGraph graph = parse_harp_document(spec.graph, spec.model).graph;
  if (graph.taps().empty() && !spec.infer) {
    fail(ErrorCode::kInvalidArgument, "graph '{}' has nothing to learn from: add a training tap",
         graph.name());
  }
  const std::vector<std::string> unresolved = graph.unresolved();
  if (!unresolved.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "graph '{}': the shapes of {} are not known; a pipeline is planned before its data is "
         "read, so write them into the model",
         graph.name(), listed(unresolved));
  }
  return graph;
}

}  // namespace

std::int64_t micro_batch_of(const PipelineSpec& spec) {
  const std::int64_t batch = setting(spec, "batch_size", 32);
  const std::int64_t slices = setting(spec, "micro_batches", 1);
  return std::max<std::int64_t>(1, (batch + slices - 1) / slices);
}

std::optional<double> period_with(const PipelineSpec& spec, const std::vector<StagePlace>& places,
                                  const std::string& plan) {
  const HarmonicGraph graph = graph_of(spec);
  const Problem problem(spec, graph, places);
  Placement placement;
  const Json json = Json::parse(plan, "plan");
  for (const Json& stage : json.at("stages").as_array()) {
    const auto place = std::ranges::find(places, stage.at("worker").as_string(),
                                         [](const StagePlace& one) { return one.place.spec.name; });
    if (place == places.end()) return std::nullopt;
    const Json::Array& layers = stage.at("layers").as_array();
    placement.push_back({static_cast<std::size_t>(layers.at(0).as_integer() - 1),
                         static_cast<std::size_t>(layers.at(1).as_integer()),
                         problem.class_of(static_cast<std::size_t>(place - places.begin()))});
  }
  return period_of(CostModel(problem.numbers(), {}), placement);
}

PipelinePlan plan_pipeline(const PipelineSpec& spec, const std::vector<StagePlace>& places) {
  const HarmonicGraph graph = graph_of(spec);
  const Problem problem(spec, graph, places);
  if (spec.stages > problem.units().size()) {
    fail(ErrorCode::kInvalidArgument, "graph '{}' has {} layers or groups, too few for {} stages",
         graph.name(), problem.units().size(), spec.stages);
  }
  const CostModel costs(problem.numbers(), {});
  const Found found = find_placement(spec, problem, costs, places.size());
  const Plan plan = name_hosts(problem.numbers(), found.placement);
  PipelinePlan result;
  for (const PlanStage& stage : plan.stages) {
    const auto place = std::ranges::find_if(
        places, [&](const StagePlace& one) { return one.place.spec.name == stage.hosts.front(); });
    result.stages.push_back(static_cast<std::size_t>(place - places.begin()));
  }
  const double period = period_of(costs, found.placement);
  result.text.set("plan", plan_to_yaml(plan)).set("graph", graph.name());
  result.text.set("micro_batch", micro_batch_of(spec)).set("period_s", period);
  result.text.set("latency_s", latency_of(costs, found.placement)).set("proven", found.proven);
  Json stages = stages_json(problem, costs, found.placement, plan);
  if (spec.infer) {
    result.text.set("infer", true);
    stages = with_outputs(stages, stage_outputs(spec, graph, plan));
  }
  result.text.set("stages", std::move(stages));
  result.text.set("workers", workers_json(spec, problem, places));
  return result;
}

}  // namespace harmonics::inline in_server
