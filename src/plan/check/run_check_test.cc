// A run beside its plan: what is found to be wrong, and what is learnt from it.
#include <harmonics/plan/run_check.h>

#include <gtest/gtest.h>

#include <harmonics/plan/planner.h>
#include <harmonics/plan/report.h>
#include <harmonics/plan/request.h>
#include <harmonics/plan/run_lessons.h>

#include <error_testing.h>

namespace harmonics::inline in_plan {
namespace {

PlanInputs three_hosts() {
  PlanInputs inputs;
  inputs.models["m"] = {{1, 1, 1, 1, 1, 1}, 1000, std::vector<std::int64_t>(6, 1 << 18)};
  const std::vector<double> times = {1, 2, 1, 2, 1, 2};
  inputs.types["board"] = {100, 1000, {{"m", {{8, "torch.float32", times}}}}};
  inputs.types["desk"] = {100, 1000, {{"m", {{8, "torch.float32", times}}}}};
  inputs.hosts = {{"board", {"b0", "b1"}}, {"desk", {"d0"}}};
  return inputs;
}

/// What a run measures when all is as planned.
MeasuredRun as_planned(const PlanInputs& inputs) {
  const PlanProblem problem = make_problem(inputs, {.model = "m"});
  PlanOutcome outcome = make_plan(problem, {});
  const Plan plan = name_hosts(problem, outcome.placement);
  const PlanReport report = make_report(problem, {}, std::move(outcome), plan);
  MeasuredRun run{"m", "torch.float32", 8, {}};
  for (std::size_t k = 0; k < report.stages.size(); ++k) {
    const PlannedStage& planned = report.stages[k];
    MeasuredStage stage;
    stage.part = format("m_{}", k);
    stage.number = k;
    stage.hosts = planned.stage.hosts;
    stage.first_layer = planned.stage.first_layer;
    stage.last_layer = planned.stage.last_layer;
    stage.batches = 10;
    stage.period_s = report.outcome.period_s;
    stage.busy_s = stage.cpu_s = planned.costs.compute_s;
    stage.threads = 1;
    stage.machine = format("machine{}", k);
    stage.cores = 4;
    stage.planned = planned.costs;
    if (k + 1 < report.stages.size()) {
      stage.bytes_sent = 8.0 * 4 * (1 << 18);
      stage.links = {{k + 1, 0, stage.bytes_sent / planned.costs.transfer_s}};
    }
    run.stages.push_back(stage);
  }
  return run;
}

std::vector<PlanFault> faults(const RunCheck& check) {
  std::vector<PlanFault> all;
  for (const RunFinding& one : check.findings) all.push_back(one.fault);
  return all;
}

double planned_again(const PlanInputs& inputs) {
  return make_plan(make_problem(inputs, {.model = "m"}), {}).period_s;
}

TEST(RunCheck, ARunAsPlannedHolds) {
  const RunCheck check = check_run(as_planned(three_hosts()), 0.1);
  EXPECT_TRUE(check.holds());
  EXPECT_NEAR(check.error(), 0, 1e-12);
  EXPECT_TRUE(check.findings.empty());
  PlanInputs inputs = three_hosts();
  const double before = planned_again(inputs);
  static_cast<void>(learn_from_run(inputs, as_planned(inputs)));
  EXPECT_NEAR(planned_again(inputs), before, 1e-3 * before);
}

TEST(RunCheck, SlowLayersAreTheComputeOfTheirStage) {
  MeasuredRun run = as_planned(three_hosts());
  MeasuredStage& slow = run.stages[1];
  slow.busy_s = slow.cpu_s = 1.5 * slow.planned.compute_s;
  for (MeasuredStage& stage : run.stages) stage.period_s = slow.busy_s;
  const RunCheck check = check_run(run, 0.1);
  EXPECT_FALSE(check.holds());
  ASSERT_EQ(faults(check), std::vector{PlanFault::kCompute});
  EXPECT_EQ(check.findings[0].stage, 1u);
  EXPECT_EQ(check.findings[0].measured_s, slow.busy_s);
  EXPECT_NE(check.findings[0].what.find(slow.hosts.front()), std::string::npos);
  EXPECT_NE(check.findings[0].advice.find("--from-run"), std::string::npos);
  EXPECT_TRUE(check_run(run, 0.6).holds()) << "as far off as one may be";
}

TEST(RunCheck, WaitingForACoreIsContentionAndNoComputeOfItsOwn) {
  MeasuredRun run = as_planned(three_hosts());
  for (MeasuredStage& stage : run.stages) {
    stage.machine = "tower";
    stage.cores = 2;
    stage.for_core_s = 0.5 * stage.busy_s;
    stage.busy_s *= 1.5;
    stage.period_s = 1.5 * stage.period_s;
  }
  const RunCheck check = check_run(run, 0.1);
  EXPECT_EQ(faults(check), std::vector(run.stages.size(), PlanFault::kContention));
  EXPECT_NE(check.findings[0].what.find("2 cores of the same machine"), std::string::npos);
  PlanInputs inputs = three_hosts();
  const std::vector<std::string> lines = learn_from_run(inputs, run);
  EXPECT_EQ(inputs.links.machines.at("tower").hosts.size(), run.stages.size());
  EXPECT_EQ(inputs.links.machines.at("tower").cores, 2);
  EXPECT_FALSE(lines.empty());
  // Nine seconds of layers on two cores.
  EXPECT_NEAR(planned_again(inputs), 4.5, 1e-3);
}

TEST(RunCheck, ASlowLinkIsNamedAndLearnt) {
  MeasuredRun run = as_planned(three_hosts());
  MeasuredStage& sender = run.stages[0];
  sender.links[0] = {1, 0.02, sender.bytes_sent / 7};
  for (MeasuredStage& stage : run.stages) stage.period_s = 7;
  const RunCheck check = check_run(run, 0.1);
  ASSERT_EQ(faults(check), std::vector{PlanFault::kLink});
  EXPECT_EQ(check.findings[0].measured_s, 7);
  PlanInputs inputs = three_hosts();
  static_cast<void>(learn_from_run(inputs, run));
  const LinkRule& rule = inputs.links.rules.at(0);
  EXPECT_NEAR(rule.bandwidth_mbps, sender.bytes_sent * 8 / 7 / (1024 * 1024), 1e-3);
  EXPECT_EQ(rule.latency_ms, 20);
  // The planner now goes around it, or counts what it takes.
  const PlanProblem problem = make_problem(inputs, {.model = "m"});
  Plan same;
  for (const MeasuredStage& stage : run.stages) {
    same.stages.push_back({stage.hosts, stage.first_layer, stage.last_layer});
  }
  EXPECT_NEAR(period_of(CostModel(problem, {}), place_plan(problem, same)), 7, 1e-3);
}

TEST(RunCheck, WaitingWithNothingBusyIsTooFewInFlight) {
  MeasuredRun run = as_planned(three_hosts());
  for (MeasuredStage& stage : run.stages) stage.period_s = 2 * stage.planned.period_s;
  run.stages[0].links[0].latency_s = 3;
  const RunCheck check = check_run(run, 0.1);
  ASSERT_EQ(faults(check), std::vector{PlanFault::kInFlight});
  EXPECT_NE(check.findings[0].advice.find("--in-flight"), std::string::npos);
  const Json json = check_to_json(check);
  EXPECT_FALSE(json.at("holds").as_bool());
  EXPECT_EQ(json.at("findings").as_array().at(0).at("fault").as_string(), "in flight");
}

TEST(RunLessons, TheSamePlanThenTakesWhatWasMeasuredAndAgainChangesNothing) {
  PlanInputs inputs = three_hosts();
  MeasuredRun run = as_planned(inputs);
  const double factors[] = {1.5, 0.75, 2};
  for (std::size_t k = 0; k < run.stages.size(); ++k) {
    MeasuredStage& stage = run.stages[k];
    stage.busy_s = stage.cpu_s = factors[k] * stage.planned.compute_s;
  }
  EXPECT_FALSE(learn_from_run(inputs, run).empty());
  const PlanProblem problem = make_problem(inputs, {.model = "m"});
  const CostModel costs(problem, {});
  Plan same;
  for (const MeasuredStage& stage : run.stages) {
    same.stages.push_back({stage.hosts, stage.first_layer, stage.last_layer});
  }
  const Placement placement = place_plan(problem, same);
  for (std::size_t k = 0; k < run.stages.size(); ++k) {
    EXPECT_NEAR(stage_costs(costs, placement, k).compute_s, run.stages[k].busy_s, 1e-9);
  }
  const DeviceTypeTable once = inputs.types;
  EXPECT_TRUE(learn_from_run(inputs, run).empty());
  for (const auto& [type, profile] : once) {
    const std::vector<double>& again = inputs.types.at(type).models.at("m").at(0).time_s;
    for (std::size_t k = 0; k < again.size(); ++k) {
      EXPECT_NEAR(again[k], profile.models.at("m").at(0).time_s[k], 1e-12);
    }
  }
}

TEST(RunLessons, FilesOfAnotherPlanAreAnError) {
  const MeasuredRun run = as_planned(three_hosts());
  PlanInputs inputs = three_hosts();
  inputs.hosts.at("board") = {"x", "y"};
  expect_error(ErrorCode::kNotFound, "is not in the file of hosts",
               [&] { static_cast<void>(learn_from_run(inputs, run)); });
  inputs = three_hosts();
  inputs.types.at("desk").models.at("m").at(0).batch_size = 4;
  expect_error(ErrorCode::kNotFound, "has no times for model 'm'",
               [&] { static_cast<void>(learn_from_run(inputs, run)); });
}

constexpr const char* kStage = R"({"part": "m_0", "batches": 4, "planned_period_s": 3,
  "period_s": 3.5, "busy_s": 12, "for_input_s": 1, "for_room_s": 1, "bytes_sent": 400, "cpu_s": 8,
  "for_core_s": 4, "number": NUMBER, "threads": 1, "machine": "here", "cores": 2,
  "links": LINKS,
  "plan": {"hosts": ["h"], "layers": LAYERS, "compute_s": 3, "receive_s": 0, "send_s": 1,
           "transfer_s": 1, "latency_s": 0, "period_s": 3}})";

std::string stage_text(int number, const std::string& layers, const std::string& links) {
  std::string text = kStage;
  for (const auto& [mark, value] :
       {std::pair<std::string, std::string>("NUMBER", std::to_string(number)),
        {"LAYERS", layers},
        {"LINKS", links}}) {
    text.replace(text.find(mark), mark.size(), value);
  }
  return text;
}

RunText report_text_of(const std::string& stages, const std::string& name = "run.json") {
  return {format(R"({{"graph": "m", "model": "m", "dtype": "torch.float32", "batch_size": 8,
                     "stages": [{}]}})",
                 stages),
          name};
}

TEST(MeasuredRun, IsReadFromOneReportOrFromOneOfEachStage) {
  const std::string link = R"([{"boundary": "x@1", "latency_s": 0.5, "bytes_per_s": 50}])";
  const std::string first = stage_text(0, "[1, 2]", link);
  const std::string last = stage_text(1, "[3, 6]", "[]");
  const RunText whole[] = {report_text_of(first + "," + last)};
  const RunText apart[] = {report_text_of(last), report_text_of(first, "first.json")};
  for (const std::span<const RunText> texts :
       {std::span<const RunText>(whole), std::span<const RunText>(apart)}) {
    const MeasuredRun run = parse_measured_run(texts);
    ASSERT_EQ(run.stages.size(), 2u);
    EXPECT_EQ(run.stages[0].compute_s(), 2);
    EXPECT_EQ(run.stages[0].transfer_s(), 2);
    EXPECT_EQ(run.stages[0].links[0].to, 1u);
    EXPECT_EQ(run.stages[1].first_layer, 3u);
    EXPECT_EQ(run.stages[1].transfer_s(), 0);
  }
}

TEST(MeasuredRun, WhatIsNoneIsAnErrorThatNamesTheFile) {
  const auto expect = [](std::vector<RunText> texts, const std::string& what) {
    expect_error(ErrorCode::kInvalidArgument, what,
                 [&] { static_cast<void>(parse_measured_run(texts)); });
  };
  expect({{"{", "run.json"}}, "run.json");
  expect({{R"({"graph": "m"})", "run.json"}}, "run.json is no report of a planned run");
  expect({}, "no report of a run");
  expect({report_text_of("")}, "no stages");
  const std::string first = stage_text(0, "[1, 2]", "[]");
  expect({report_text_of(first), report_text_of(first)}, "there twice");
  expect({report_text_of(stage_text(1, "[3, 6]", "[]"))}, "missing");
  expect({report_text_of(first), report_text_of(stage_text(1, "[4, 6]", "[]"))}, "several plans");
  expect({report_text_of(stage_text(0, "[2]", "[]"))}, "layers");
  expect({report_text_of(stage_text(0, "[1, 2]",
                                    R"([{"boundary": "x@9", "latency_s": 1, "bytes_per_s": 1}])"))},
         "stage 0");
}

}  // namespace
}  // namespace harmonics::inline in_plan
