#include <harmonics/plan/plan_file.h>

#include <gtest/gtest.h>

#include <error_testing.h>

namespace harmonics::inline in_plan {
namespace {

constexpr std::string_view kList = "- desk: [1, 15]\n- shelf: [16, 29]\n- cellar: [16, 29]\n";
constexpr std::string_view kReport = R"({
  "model": "vit", "batch_size": 8, "stages": [
    {"hosts": ["desk"], "layers": [1, 15], "period_s": 0.5},
    {"hosts": ["shelf", "cellar"], "layers": [16, 29], "period_s": 0.25}]})";

TEST(PlanFile, AListAndAReportSayTheSamePlan) {
  const PlanFile list = parse_plan_file(kList, "plan.yml");
  const PlanFile report = parse_plan_file(kReport, "plan.json");
  EXPECT_EQ(list.plan, report.plan);
  ASSERT_EQ(report.plan.stages.size(), 2u);
  EXPECT_EQ(report.plan.stages[1].hosts, (std::vector<std::string>{"shelf", "cellar"}));
  EXPECT_EQ(report.model, "vit");
  EXPECT_EQ(report.batch_size, 8);
  EXPECT_EQ(report.periods_s, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(list.model, "");
  EXPECT_EQ(list.batch_size, 0);
  EXPECT_TRUE(list.periods_s.empty());
}

TEST(PlanFile, HostsMayTakeUnequallyManyTurns) {
  const std::string_view list = "- a: [1, 4, 2]\n- b: [1, 4, 1]\n- c: [5, 6]\n";
  const PlanFile read = parse_plan_file(list, "plan.yml");
  EXPECT_EQ(read.plan.stages[0].turns, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_TRUE(read.plan.stages[1].turns.empty());
  EXPECT_EQ(plan_to_yaml(read.plan), list);
  EXPECT_EQ(read.plan, parse_plan_file(R"({"model": "m", "batch_size": 8, "stages": [
      {"hosts": ["a", "b"], "layers": [1, 4], "turns": [2, 1], "period_s": 1},
      {"hosts": ["c"], "layers": [5, 6], "period_s": 1}]})",
                                       "plan.json")
                           .plan);
  // Equal ones are what a plan means anyway.
  EXPECT_TRUE(parse_plan("- a: [1, 4, 3]\n- b: [1, 4, 3]\n", "p").stages[0].turns.empty());
}

TEST(PlanFile, WhatIsNeitherIsAnErrorThatNamesTheFile) {
  const auto refuses = [](std::string_view text, const std::string& why) {
    expect_error(ErrorCode::kInvalidArgument, why,
                 [&] { static_cast<void>(parse_plan_file(text, "plan.json")); });
  };
  refuses("{}", "plan.json");
  refuses(R"({"model": "vit", "batch_size": 8})", "stages");
  refuses(R"({"model": 7, "batch_size": 8, "stages": []})", "plan.json");
  refuses(R"({"model": "m", "batch_size": 8, "stages": [{"hosts": ["a"], "layers": [1],
             "period_s": 1}]})",
          "[first, last]");
  refuses(R"({"model": "m", "batch_size": 8, "stages": [{"hosts": ["a"], "layers": [2, 3],
             "period_s": 1}]})",
          "does not follow on");
  refuses("- a: [2, 3]", "does not follow on");
  refuses("- a: [1, 3, 1001]", "at most 1000 turns");
  refuses("- a: [1, 3, 1, 1]", "[first, last]");
  refuses("- a: [1, 3, 2]", "this host takes all turns");
  refuses(R"({"model": "m", "batch_size": 8, "stages": [{"hosts": ["a", "b"], "layers": [1, 3],
             "turns": [1], "period_s": 1}]})",
          "a number for each host");
}

TEST(PlanFile, HostsHaveAddresses) {
  const HostAddresses hosts =
      parse_host_addresses("desk: 10.0.0.7:9000\nshelf: 'shelf.lan:9001'\n", "hosts.yml");
  EXPECT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts.at("desk"), "10.0.0.7:9000");
  expect_error(ErrorCode::kInvalidArgument, "hosts.yml:2", [] {
    static_cast<void>(parse_host_addresses("desk: a:1\nshelf: nowhere\n", "hosts.yml"));
  });
  expect_error(ErrorCode::kInvalidArgument, "hosts.yml",
               [] { static_cast<void>(parse_host_addresses("- desk\n", "hosts.yml")); });
}

}  // namespace
}  // namespace harmonics::inline in_plan
