#include <harmonics/plan/training.h>

#include <algorithm>
#include <numeric>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/plan/pipeline_time.h>

namespace harmonics::inline in_plan {
namespace {

// Of a boundary a stage has the next activation, and a gradient, on its way and in its hands.
constexpr double kMessagesOfABoundary = 3;

double sum_of(const std::vector<double>& values, const PlacedStage& stage) {
  const auto begin = values.begin();
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(stage.first_cut),
                         begin + static_cast<std::ptrdiff_t>(stage.last_cut), 0.0);
}

double most_of(const std::vector<double>& values, const PlacedStage& stage) {
  const auto begin = values.begin();
  return *std::max_element(begin + static_cast<std::ptrdiff_t>(stage.first_cut),
                           begin + static_cast<std::ptrdiff_t>(stage.last_cut));
}

double forward_s(const PlanProblem& problem, const CostModel& costs, const PlacedStage& stage) {
  // A changed problem (shared cores, packing) has other times; the forward part keeps its share.
  const HostClass& hosts = problem.classes[stage.host_class];
  const double measured = sum_of(hosts.layer_time_s, stage);
  const double compute = costs.compute_s(stage.host_class, stage.first_cut, stage.last_cut);
  return measured > 0 ? sum_of(hosts.forward_time_s, stage) * compute / measured : 0;
}

// Where nothing overlaps, a stage that sends or takes cannot compute meanwhile.
void add_transfers(const CostModel& costs, const Placement& placement, std::size_t k,
                   StagePasses& passes) {
  const StageCosts stage = stage_costs(costs, placement, k);
  passes.forward_s += stage.receive_s + stage.send_s;
  passes.backward_s += stage.receive_s + stage.send_s;
}

StagePasses passes_of(const PlanProblem& problem, const CostModel& costs,
                      const Placement& placement, std::size_t k) {
  const PlacedStage& stage = placement[k];
  StagePasses passes;
  passes.copies = stage.hosts;
  passes.forward_s = forward_s(problem, costs, stage);
  passes.backward_s =
      costs.compute_s(stage.host_class, stage.first_cut, stage.last_cut) - passes.forward_s;
  if (k + 1 < placement.size()) {
    const std::size_t next = placement[k + 1].host_class;
    passes.latency_s = costs.link_latency_s(stage.host_class, next);
    passes.bytes_per_s = costs.bandwidth(stage.host_class, next);
    passes.sent_bytes = problem.cut_bytes[stage.last_cut];
    passes.returned_bytes = passes.sent_bytes;
    if (!problem.tied_bytes.empty()) passes.returned_bytes += problem.tied_bytes[stage.last_cut];
  }
  if (costs.overlap() == Overlap::kNone) {
    passes.sent_bytes = passes.returned_bytes = 0;
    add_transfers(costs, placement, k, passes);
  }
  return passes;
}

}  // namespace

bool is_trained(const PlanProblem& problem) {
  return problem.training.known() && !problem.classes.empty() &&
         std::ranges::none_of(problem.classes,
                              [](const HostClass& hosts) { return hosts.forward_time_s.empty(); });
}

double trained_memory_bytes(const PlanProblem& problem, const PlacedStage& stage,
                            const TrainingWish& wish, std::size_t in_flight) {
  const TrainingMegabytes& memory = problem.training;
  const double in = stage.first_cut == 0 ? 0 : problem.cut_bytes[stage.first_cut];
  const double out = stage.last_cut == problem.layers() ? 0 : problem.cut_bytes[stage.last_cut];
  const auto held = static_cast<double>(in_flight);
  // What the graph is given lies there as a whole batch.
  const double entered = stage.first_cut == 0 ? wish.micro_batches : held;
  return kBytesPerMegabyte *
             (sum_of(memory.fixed_mb, stage) + held * sum_of(memory.kept_mb, stage) +
              most_of(memory.scratch_mb, stage)) +
         entered * problem.cut_bytes[stage.first_cut] + kMessagesOfABoundary * (in + out);
}

PlannedTraining plan_training(const PlanProblem& problem, const CostOptions& options,
                              const Placement& placement, const TrainingWish& wish) {
  if (!is_trained(problem)) {
    fail(ErrorCode::kFailedPrecondition,
         "'{}' was not measured for training, forward and backward passes apart: measure it with "
         "'harmonics profile --mode training' on all device types, which files it under its name "
         "with '-training'",
         problem.model);
  }
  const CostModel costs(problem, options);
  PlannedTraining planned{.wish = wish, .batch_s = 0, .stages = {}};
  std::vector<StagePasses> row;
  for (std::size_t k = 0; k < placement.size(); ++k) {
    row.push_back(passes_of(problem, costs, placement, k));
    const std::size_t held = most_in_flight(wish.order, wish.micro_batches, placement.size() - k);
    planned.stages.push_back({row.back().forward_s, row.back().backward_s, held,
                              trained_memory_bytes(problem, placement[k], wish, held)});
  }
  planned.batch_s = batch_time_s(row, wish.order, wish.micro_batches);
  return planned;
}

std::string training_to_text(const PlannedTraining& training, std::int64_t batch_size) {
  const auto ms = [](double seconds) { return format("{:.3f} ms", 1e3 * seconds); };
  return format("training in {} order, {} micro-batches of {}: {} per batch, {} per micro-batch\n",
                pipeline_order_name(training.wish.order), training.wish.micro_batches, batch_size,
                ms(training.batch_s), ms(training.period_s()));
}

Json training_to_json(const PlannedTraining& training) {
  Json stages = Json::array();
  for (const TrainedStage& stage : training.stages) {
    stages.push(Json::object()
                    .set("forward_s", stage.forward_s)
                    .set("backward_s", stage.backward_s)
                    .set("in_flight", static_cast<std::uint64_t>(stage.in_flight))
                    .set("memory_mb", stage.memory_bytes / kBytesPerMegabyte));
  }
  return Json::object()
      .set("pipeline", pipeline_order_name(training.wish.order))
      .set("micro_batches", static_cast<std::uint64_t>(training.wish.micro_batches))
      .set("batch_s", training.batch_s)
      .set("period_s", training.period_s())
      .set("stages", std::move(stages));
}

}  // namespace harmonics::inline in_plan
