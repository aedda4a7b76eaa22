#include <gtest/gtest.h>

#include <harmonics/plan/report.h>
#include <harmonics/plan/request.h>

#include "plan_testing.h"
#include "problem_testing.h"

namespace harmonics::inline in_plan {
namespace {

PlanReport example_report(const PlannerOptions& options) {
  const PlanProblem problem = make_problem(example_inputs(), {});
  PlanOutcome outcome = make_plan(problem, options);
  const Plan plan = name_hosts(problem, outcome.placement);
  return make_report(problem, options, std::move(outcome), plan);
}

TEST(PlanReport, TextSaysHowGoodThePlanIsAndWhatBinds) {
  const std::string text = report_to_text(example_report({}));
  for (const char* part :
       {"period 1.539864 s, lower bound 1.539864 s: proven optimal", "<- slowest", "binds",
        "certificate: no plan has a period of 1.5398", "8 hosts in 8 stages", "of 2048.0"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(PlanReport, AnUnprovenPlanShowsItsGap) {
  PlanReport report = example_report({});
  report.outcome.proven = false;
  report.outcome.lower_bound_s = report.outcome.period_s / 1.01;
  EXPECT_NEAR(report.gap(), 0.01, 1e-9);
  EXPECT_NE(report_to_text(report).find("within 1.0000 % of the best plan"), std::string::npos);
  EXPECT_NEAR(report_to_json(report).at("gap").as_number(), 0.01, 1e-9);
}

// The certificate is complete in the report: a reader can check it with the files alone.
TEST(PlanReport, TheCertificateInJsonHolds) {
  const PlanProblem problem = make_problem(example_inputs(), {});
  const Json json = Json::parse(report_to_json(example_report({})).dump(2), "report");
  PeriodProof proof;
  proof.period_s = json.at("certificate").at("period_s").as_number();
  for (const Json& one : json.at("certificate").at("prices").as_array()) {
    proof.price.push_back(one.at("price").as_number());
  }
  EXPECT_TRUE(proof_holds({problem, {}}, false, proof));
  EXPECT_TRUE(json.at("proven").as_bool());
  EXPECT_EQ(json.at("stages").as_array().size(), 8u);
  const Json& first = json.at("stages").as_array()[0];
  EXPECT_EQ(first.at("layers").as_array()[0].as_integer(), 1);
  EXPECT_GT(first.at("memory_mb").as_number(), 100);
  EXPECT_EQ(json.at("objective_s").as_number(), json.at("period_s").as_number());
}

TEST(PlanReport, SectionsAppearWhenAskedFor) {
  PlanReport report = example_report({});
  EXPECT_EQ(report_to_json(report).find("fallbacks"), nullptr);
  report.fallbacks.push_back({"t", "h", {}, "memory is short", 0, false, 0});
  report.fallbacks.push_back({"u", "g", Plan{{{{"x"}, 1, 48}}}, "", 2.5, true, 7});
  report.changes = {{"h", 1, 2, 1, 3, 1}};
  report.replan = ReplanOutcome{};
  report.replan->stays = true;
  report.tried = {{{8, "torch.float32"}, true, 5, 12}, {{16, "torch.float32"}, false, 0, 0}};
  const std::string text = report_to_text(report);
  for (const char* part : {"without h (t): memory is short", "without g (u): period 2.500000 s",
                           "- x: [1, 48]", "the current plan stays", "h: [1, 2] -> [1, 3]",
                           "tried batch size 16 torch.float32: no plan"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  const Json json = report_to_json(report);
  EXPECT_EQ(json.at("fallbacks").as_array().size(), 2u);
  EXPECT_TRUE(json.at("replan").at("stays").as_bool());
  EXPECT_EQ(json.at("changes").as_array().size(), 1u);
  EXPECT_EQ(json.at("tried").as_array().size(), 2u);
}

TEST(PlanReport, NoLayersMakeAShortReport) {
  PlanRequest request;
  request.model = "DummyModel";
  const PlanProblem problem = make_problem(example_inputs(), request);
  const PlanReport report = make_report(problem, {}, make_plan(problem, {}), {});
  EXPECT_NE(report_to_text(report).find("the model has no layers"), std::string::npos);
  EXPECT_EQ(report_to_json(report).at("stages").as_array().size(), 0u);
  EXPECT_NE(report_to_svg(report).find("</svg>"), std::string::npos);
}

TEST(PlanReport, TheTimeLineHasARowPerStageAndEscapesNames) {
  PlanReport report = example_report({});
  report.model = "a<b>&\"c\"";
  const std::string svg = report_to_svg(report);
  EXPECT_EQ(svg.find("<svg"), 0u);
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;c&quot;"), std::string::npos);
  std::size_t bars = 0;
  for (std::size_t at = svg.find("micro-batch"); at != std::string::npos;
       at = svg.find("micro-batch", at + 1)) {
    ++bars;
  }
  EXPECT_EQ(bars, 8u * 6u);
}

TEST(PlanReport, LongPipelinesAreDrawnUpToALimit) {
  PlanReport report = example_report({});
  const PlannedStage one = report.stages.front();
  report.stages.assign(201, one);
  EXPECT_NE(report_to_svg(report).find("and 1 more stages"), std::string::npos);
  report.stages.assign(200, one);
  EXPECT_EQ(report_to_svg(report).find("more stages"), std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_plan
