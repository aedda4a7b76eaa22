#include <harmonics/plan/pipelines.h>

#include <algorithm>
#include <map>
#include <optional>

#include <harmonics/base/error.h>

#include "row_search.h"

namespace harmonics::inline in_plan {
namespace {

using HostNumbers = std::map<std::string, std::size_t, std::less<>>;

constexpr std::uint64_t kDefaultRowWork = 120'000'000;
// What takes no time is done this often a second.
constexpr double kMostRate = 1e12;
constexpr double kAsFast = 1e-6;
constexpr double kJoinedShare = 0.995;
// What programs run is taken where a flow brings no more than this.
constexpr double kFlowWorth = 0.01;

void refuse_what_no_flow_says(const PlanProblem& problem, const CostOptions& costs) {
  const auto refuse = [](const std::string& what) {
    fail(ErrorCode::kInvalidArgument, "several pipelines: {}", what);
  };
  std::size_t hosts = 0;
  for (const HostClass& one : problem.classes) hosts += one.hosts.size();
  const std::size_t layers = problem.layers();
  if (costs.overlap != Overlap::kFull) refuse("stages must overlap: leave out '--overlap none'");
  if (!problem.machines.empty()) refuse("hosts that share a machine are not counted yet");
  if (!problem.order.empty()) refuse("hosts with a fixed order are one pipeline");
  if (layers == 0 || layers > kMaxFlowLayers) {
    refuse(format("{} layers, not 1 to {}", layers, kMaxFlowLayers));
  }
  if (hosts > kMaxFlowHosts) refuse(format("{} hosts, at most {} are", hosts, kMaxFlowHosts));
  if (problem.classes.size() * layers * (layers + 1) / 2 > kMaxFlowRates) {
    refuse(format("{} kinds of hosts and {} layers are too many together", problem.classes.size(),
                  layers));
  }
}

FlowKind kind_of(const CostModel& costs, std::size_t u, const std::string& type) {
  FlowKind kind{type, {}};
  for (std::size_t i = 0; i < costs.layers(); ++i) {
    std::vector<double>& row = kind.rates.emplace_back();
    for (std::size_t j = i + 1; j <= costs.layers(); ++j) {
      const double rate = 1 / costs.stage_s(u, i, j);
      row.push_back(costs.allowed(u, i, j) ? std::min(rate, kMostRate) : 0);
    }
  }
  return kind;
}

HostNumbers numbers_of(const FlowProblem& problem) {
  HostNumbers numbers;
  for (std::size_t h = 0; h < problem.hosts.size(); ++h) numbers[problem.hosts[h].name] = h;
  return numbers;
}

Row row_of(const FlowProblem& problem, const Plan& plan) {
  const HostNumbers numbers = numbers_of(problem);
  Row row;
  for (const PlanStage& stage : plan.stages) {
    RowStage& one = row.emplace_back();
    one.range = {stage.first_layer - 1, stage.last_layer};
    for (const std::string& host : stage.hosts) {
      const auto found = numbers.find(host);
      if (found == numbers.end()) {
        fail(ErrorCode::kFailedPrecondition, "there is no host '{}' to plan for", host);
      }
      one.hosts.push_back(found->second);
    }
  }
  return row;
}

std::vector<FlowRange> ranges_of_rows(const FlowProblem& problem, const std::vector<Row>& rows) {
  std::vector<FlowRange> ranges(problem.hosts.size());
  for (const Row& row : rows) {
    for (const RowStage& stage : row) {
      for (const std::size_t host : stage.hosts) ranges[host] = stage.range;
    }
  }
  return ranges;
}

// With names and turns.
PlannedPipeline planned(const FlowProblem& problem, const Row& row) {
  PlannedPipeline pipeline;
  std::vector<std::vector<std::uint32_t>> all_turns;
  for (const RowStage& stage : row) {
    PlanStage& named = pipeline.plan.stages.emplace_back();
    named.first_layer = stage.range.first_cut + 1;
    named.last_layer = stage.range.last_cut;
    std::vector<double> rates;
    for (const std::size_t host : stage.hosts) {
      named.hosts.push_back(problem.hosts[host].name);
      rates.push_back(
          problem.rate(problem.hosts[host].kind, stage.range.first_cut, stage.range.last_cut));
    }
    const std::vector<std::uint32_t>& turns = all_turns.emplace_back(turns_for(rates));
    if (std::ranges::any_of(turns, [](std::uint32_t own) { return own != 1; })) named.turns = turns;
  }
  pipeline.rate = row_rate_with(problem, row, all_turns);
  return pipeline;
}

bool same_cuts(const Row& a, const Row& b) {
  return std::ranges::equal(
      a, b, [](const RowStage& x, const RowStage& y) { return x.range == y.range; });
}

// Rows with the same cuts are one row whose hosts take turns, at least as fast but for links and
// rounds of turns.
std::vector<Row> joined_rows(const FlowProblem& problem, const std::vector<Row>& rows) {
  std::vector<Row> joined;
  for (const Row& row : rows) {
    const auto same =
        std::ranges::find_if(joined, [&](const Row& other) { return same_cuts(row, other); });
    if (same == joined.end()) {
      joined.push_back(row);
      continue;
    }
    Row both = *same;
    for (std::size_t k = 0; k < both.size(); ++k) {
      both[k].hosts.insert(both[k].hosts.end(), row[k].hosts.begin(), row[k].hosts.end());
    }
    const double apart = planned(problem, *same).rate + planned(problem, row).rate;
    if (planned(problem, both).rate >= kJoinedShare * apart) {
      *same = std::move(both);
    } else {
      joined.push_back(row);
    }
  }
  return joined;
}

std::vector<PlannedPipeline> planned_rows(const FlowProblem& problem,
                                          const std::vector<Row>& found) {
  const std::vector<Row> rows = joined_rows(problem, found);
  std::vector<PlannedPipeline> pipelines;
  for (const Row& row : rows) pipelines.push_back(planned(problem, row));
  std::ranges::stable_sort(pipelines, std::ranges::greater{}, &PlannedPipeline::rate);
  return pipelines;
}

// The rows that a placement is, where no route branches into ranges of other cuts; nothing where
// some do.
std::vector<Row> rows_of_ranges(const FlowProblem& problem, const std::vector<FlowRange>& ranges) {
  std::map<std::pair<std::size_t, std::size_t>, RowStage> stages;
  for (std::size_t h = 0; h < ranges.size(); ++h) {
    if (!ranges[h].used()) continue;
    RowStage& stage = stages[{ranges[h].first_cut, ranges[h].last_cut}];
    stage.range = ranges[h];
    stage.hosts.push_back(h);
  }
  std::vector<std::size_t> begins(problem.layers + 1, 0);
  std::vector<std::size_t> ends(problem.layers + 1, 0);
  for (const auto& [cuts, stage] : stages) ++begins[cuts.first], ++ends[cuts.second];
  for (std::size_t cut = 1; cut < problem.layers; ++cut) {
    if (begins[cut] != ends[cut] || begins[cut] > 1) return {};
  }
  std::vector<Row> rows;
  for (const auto& [cuts, first] : stages) {
    if (cuts.first != 0) continue;
    Row& row = rows.emplace_back(Row{first});
    while (row.back().range.last_cut < problem.layers) {
      row.push_back(stages.lower_bound({row.back().range.last_cut, 0})->second);
    }
  }
  return rows;
}

double all_rates(const std::vector<PlannedPipeline>& pipelines) {
  double sum = 0;
  for (const PlannedPipeline& pipeline : pipelines) sum += pipeline.rate;
  return sum;
}

// The plans of one pipeline, as rows. Throws NoFeasiblePlan where there is none.
std::vector<std::vector<Row>> chains(const PlanProblem& problem, const PipelinesOptions& options,
                                     PipelinesOutcome& outcome) {
  std::vector<std::vector<Row>> starts;
  for (const bool replicate : {false, true}) {
    PlannerOptions planner;
    planner.costs = options.costs;
    planner.preference = PlanPreference::kNone;
    planner.replicate = replicate;
    planner.work = options.work;
    const PlanOutcome one = make_plan(problem, planner);
    starts.push_back({row_of(outcome.problem, name_hosts(problem, one.placement))});
    const double rate = one.period_s > 0 ? 1 / one.period_s : kMostRate;
    outcome.chain_rate = std::max(outcome.chain_rate, rate);
  }
  return starts;
}

}  // namespace

std::string pipeline_shape_name(PipelineShape shape) {
  switch (shape) {
    case PipelineShape::kRow: return "row";
    case PipelineShape::kPipelines: return "pipelines";
    case PipelineShape::kFlow: break;
  }
  return "flow";
}

double PipelinesOutcome::gap() const {
  return rate > 0 ? std::max(0.0, flow.proof.rate / rate - 1)
                  : std::numeric_limits<double>::infinity();
}

FlowProblem flow_of(const PlanProblem& problem, const CostOptions& options) {
  refuse_what_no_flow_says(problem, options);
  const CostModel costs(problem, options);
  FlowProblem flow;
  flow.layers = problem.layers();
  for (std::size_t u = 0; u < problem.classes.size(); ++u) {
    flow.kinds.push_back(kind_of(costs, u, problem.classes[u].type));
    for (const std::string& host : problem.classes[u].hosts) flow.hosts.push_back({host, u});
  }
  const std::size_t ends = flow.hosts.size() + 2;
  flow.link_rates.assign(ends * ends, std::numeric_limits<double>::infinity());
  for (std::size_t a = 0; a < flow.hosts.size(); ++a) {
    for (std::size_t b = 0; b < flow.hosts.size(); ++b) {
      flow.link_rates[a * ends + b] = costs.link_bandwidth(flow.hosts[a].kind, flow.hosts[b].kind);
    }
  }
  for (std::size_t cut = 0; cut <= flow.layers; ++cut) {
    flow.cut_weights.push_back(costs.transfer_s(cut, 1));
  }
  check_flow(flow);
  return flow;
}

double row_rate(const FlowProblem& problem, const Plan& plan) {
  const Row row = row_of(problem, plan);
  (void)evaluate_flow(problem, ranges_of_rows(problem, {row}));
  std::vector<std::vector<std::uint32_t>> turns;
  for (const PlanStage& stage : plan.stages) {
    turns.push_back(stage.turns.empty() ? std::vector<std::uint32_t>(stage.hosts.size(), 1)
                                        : stage.turns);
  }
  return row_rate_with(problem, row, turns);
}

PipelinesOutcome plan_pipelines(const PlanProblem& problem, const PipelinesOptions& options) {
  PipelinesOutcome outcome;
  outcome.problem = flow_of(problem, options.costs);
  std::vector<std::vector<Row>> starts = chains(problem, options, outcome);
  starts.push_back(
      search_rows(outcome.problem, starts, options.work > 0 ? options.work : kDefaultRowWork));
  FlowOptions flow{.work = options.work};
  for (const std::vector<Row>& rows : starts) {
    flow.starts.push_back(ranges_of_rows(outcome.problem, rows));
  }
  outcome.flow = plan_flow(outcome.problem, flow);
  starts.push_back(rows_of_ranges(outcome.problem, outcome.flow.ranges));
  for (const std::vector<Row>& rows : starts) {
    std::vector<PlannedPipeline> pipelines = planned_rows(outcome.problem, rows);
    // Of equally fast ones the simpler, which comes first.
    if (all_rates(pipelines) <= outcome.rate * (1 + kAsFast)) continue;
    outcome.rate = all_rates(pipelines);
    outcome.pipelines = std::move(pipelines);
  }
  outcome.shape = outcome.pipelines.size() > 1 ? PipelineShape::kPipelines : PipelineShape::kRow;
  if (options.wish == PipelineWish::kAuto &&
      outcome.flow.rate() > outcome.rate * (1 + kFlowWorth)) {
    outcome.shape = PipelineShape::kFlow;
    outcome.rate = outcome.flow.rate();
    outcome.pipelines.clear();
  }
  outcome.proven = outcome.rate >= outcome.flow.proof.rate * (1 - kAsFast);
  return outcome;
}

}  // namespace harmonics::inline in_plan
