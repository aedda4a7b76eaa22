#include <gtest/gtest.h>

#include <filesystem>

#include <harmonics/base/log.h>
#include <harmonics/plan/choice.h>
#include <harmonics/plan/plan.h>
#include <harmonics/plan/report.h>
#include <harmonics/plan/request.h>

#include <error_testing.h>

#include "plan_testing.h"

namespace harmonics::inline in_plan {
namespace {

constexpr const char* kText = "- a: [1, 6]\n- b: [7, 9]\n- c: [7, 9]\n- d: [10, 10]\n";

TEST(Plan, TextReadsBack) {
  const Plan plan = parse_plan(kText, "plan.yml");
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages[1].hosts, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(plan_to_yaml(plan), kText);
  EXPECT_TRUE(parse_plan("[]\n", "plan.yml").stages.empty());
  EXPECT_EQ(plan_to_yaml({}), "[]\n");
}

TEST(Plan, BrokenTextsAreErrorsWithTheLine) {
  const auto error = [](const char* text) {
    return error_of([&] { static_cast<void>(parse_plan(text, "plan.yml")); });
  };
  EXPECT_NE(
      error("- a: [1, 3]\n- b: [5, 6]\n").find("plan.yml:2: [2].b: [5, 6] does not follow on"),
      std::string::npos);
  EXPECT_NE(error("- a: [1, 3]\n- a: [4, 6]\n").find("this host is there twice"),
            std::string::npos);
  EXPECT_NE(error("- a: [2, 3]\n").find("layer 1 comes next"), std::string::npos);
  EXPECT_NE(error("- a: [3, 1]\n").find("does not follow on"), std::string::npos);
  EXPECT_NE(error("- a: [1]\n").find("must be [first, last]"), std::string::npos);
  EXPECT_NE(error("- a: [1, 2, 3]\n").find("must be [first, last]"), std::string::npos);
  EXPECT_NE(error("- [1, 2]\n").find("must be a map"), std::string::npos);
  EXPECT_NE(error("- {a: [1, 2], b: [3, 4]}\n").find("host: [first, last]"), std::string::npos);
  EXPECT_NE(error("a: [1, 2]\n").find("must be a list"), std::string::npos);
  EXPECT_NE(error("- a: [0, 2]\n").find("is not in 1.."), std::string::npos);
}

TEST(Plan, NamesAndPlacementsAgree) {
  const PlanProblem problem = make_problem(example_inputs(), {});
  const Placement placement = {{0, 20, 0, 2}, {20, 40, 1, 1}, {40, 48, 0, 1}};
  const Plan plan = name_hosts(problem, placement);
  EXPECT_EQ(plan.stages[0].hosts, (std::vector<std::string>{"mb-0", "mb-1"}));
  EXPECT_EQ(plan.stages[2].hosts, (std::vector<std::string>{"mb-2"}));
  EXPECT_EQ(place_plan(problem, plan), placement);
  const auto error = [&](const char* text) {
    return error_of([&] { static_cast<void>(place_plan(problem, parse_plan(text, "p"))); });
  };
  EXPECT_NE(error("- nobody: [1, 48]\n").find("'nobody' is not available"), std::string::npos);
  EXPECT_NE(error("- mb-0: [1, 47]\n").find("ends with layer 47"), std::string::npos);
  EXPECT_NE(error("- mb-0: [1, 48]\n- rcc-0: [1, 48]\n").find("several kinds"), std::string::npos);
}

TEST(Plan, DifferencesNameWhatMoves) {
  const Plan before = parse_plan("- a: [1, 6]\n- b: [7, 9]\n- c: [10, 12]\n", "before");
  const Plan after = parse_plan("- a: [1, 8]\n- d: [9, 9]\n- c: [10, 12]\n", "after");
  EXPECT_EQ(difference_to_text(plan_difference(before, after)),
            "a: [1, 6] -> [1, 8], 2 layers to move\n"
            "d: nothing -> [9, 9], 1 layer to move\n"
            "b: [7, 9] -> nothing\n");
  EXPECT_EQ(difference_to_text(plan_difference(before, before)), "no difference\n");
  const std::vector<double> memory(12, 2.5);
  EXPECT_DOUBLE_EQ(moved_megabytes(memory, before, after), 3 * 2.5);
  EXPECT_DOUBLE_EQ(moved_megabytes(memory, {}, after), 12 * 2.5);
}

// The example of docs/guides/planning.md, which a test compares with this file.
TEST(Plan, TheGuidesExampleRuns) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(example_folder());
  const PlanInputs inputs = read_plan_inputs({.models = "models.yml"});
  const PlanProblem problem = make_problem(inputs, {.model = "google/vit-base-patch16-224"});
  const PlanOutcome outcome = make_plan(problem, {});
  const Plan plan = name_hosts(problem, outcome.placement);
  std::filesystem::current_path(before);
  EXPECT_EQ(plan.stages.size(), 8u);
}

TEST(PlanRequest, ReadsPins) {
  EXPECT_EQ(parse_layer_pin("7=a").first_layer, 7u);
  const LayerPin pin = parse_layer_pin("3-9=some=host");
  EXPECT_EQ(pin.first_layer, 3u);
  EXPECT_EQ(pin.last_layer, 9u);
  EXPECT_EQ(pin.where, "some=host");
  for (const char* text : {"", "=a", "3=", "3", "a=b", "3-=b", "-3=b", "3-4-5=b"}) {
    EXPECT_NE(error_of([&] { static_cast<void>(parse_layer_pin(text)); }), "no error") << text;
  }
}

TEST(PlanRequest, ParameterCountsScaleWithTheMicroBatchAndTheDtype) {
  PlanInputs inputs = example_inputs();
  for (auto& [name, type] : inputs.types) {
    for (auto& [model, profiles] : type.models) {
      LayerTimes other = profiles.front();
      other.batch_size = 3;
      other.dtype = "torch.float16";
      profiles.push_back(other);
    }
  }
  const auto cut_bytes = [&](std::int64_t batch_size, const char* dtype) {
    PlanRequest request;
    request.batch_size = batch_size;
    request.dtype = dtype;
    return make_problem(inputs, request).cut_bytes;
  };
  const ModelProfile& model = inputs.models.at(PlanRequest().model);
  const std::vector<double> eight = cut_bytes(8, "torch.float32"),
                            three = cut_bytes(3, "torch.float16");
  ASSERT_EQ(eight.size(), 49u);
  EXPECT_EQ(eight[0], 150'528.0 * 8 * 4);
  EXPECT_EQ(three[0], 150'528.0 * 3 * 2);
  for (std::size_t layer = 0; layer < 48; ++layer) {
    const auto count = static_cast<double>(model.parameters_out[layer]);
    EXPECT_EQ(eight[layer + 1], count * 8 * 4) << layer;
    EXPECT_EQ(three[layer + 1], count * 3 * 2) << layer;
  }
}

TEST(PlanRequest, TypesWithoutAProfileAreLeftOutWithAWarning) {
  PlanInputs inputs = example_inputs();
  inputs.types.at("Minnowboard-E3845").models.erase(PlanRequest().model);
  const LogCapture log;
  const PlanProblem problem = make_problem(inputs, {});
  ASSERT_EQ(problem.classes.size(), 1u);
  EXPECT_EQ(problem.classes[0].hosts.front(), "rcc-0");
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("'Minnowboard-E3845' is left out"), std::string::npos);
}

TEST(PlanRequest, RefusesUnknownNamesAndListsWhatThereIs) {
  const PlanInputs inputs = example_inputs();
  const auto error = [&](auto change) {
    PlanRequest request;
    change(request);
    return error_of([&] { static_cast<void>(make_problem(inputs, request)); });
  };
  EXPECT_NE(error([](PlanRequest& r) { r.model = "x"; }).find("google/vit-base-patch16-224"),
            std::string::npos);
  EXPECT_NE(error([](PlanRequest& r) { r.dtype = "x"; }).find("torch.float32"), std::string::npos);
  EXPECT_NE(error([](PlanRequest& r) { r.batch_size = 0; }), "no error");
  EXPECT_NE(error([](PlanRequest& r) { r.host_order = {"x"}; }).find("no host 'x'"),
            std::string::npos);
  EXPECT_NE(error([](PlanRequest& r) {
              r.host_order = {"mb-0", "mb-0"};
            }).find("twice"),
            std::string::npos);
  EXPECT_NE(error([](PlanRequest& r) { r.excluded_hosts = {"x"}; }).find("no host 'x'"),
            std::string::npos);
  EXPECT_NE(error([](PlanRequest& r) {
              r.pins = {{1, 49, "mb-0"}};
            }).find("1..48"),
            std::string::npos);
  EXPECT_NE(error([](PlanRequest& r) {
              r.pins = {{1, 1, "x"}};
            }).find("no host 'x'"),
            std::string::npos);
}

TEST(PlanRequest, SortsHostsIntoClasses) {
  PlanInputs inputs = example_inputs();
  PlanRequest request;
  EXPECT_EQ(make_problem(inputs, request).classes.size(), 2u);
  request.excluded_hosts = {"mb-1"};
  EXPECT_EQ(make_problem(inputs, request).classes[0].hosts,
            (std::vector<std::string>{"mb-0", "mb-2", "mb-3"}));
  request.pins = {parse_layer_pin("5=mb-2")};
  const PlanProblem pinned = make_problem(inputs, request);
  ASSERT_EQ(pinned.classes.size(), 3u);
  EXPECT_EQ(pinned.classes[1].hosts, (std::vector<std::string>{"mb-2"}));
  EXPECT_TRUE(pinned.classes[1].barred.empty());
  EXPECT_TRUE(pinned.classes[0].barred[4]);
  EXPECT_FALSE(pinned.classes[0].barred[3]);
  request = {};
  request.host_order = {"rcc-1", "mb-0"};
  const PlanProblem ordered = make_problem(inputs, request);
  ASSERT_EQ(ordered.classes.size(), 2u);
  EXPECT_EQ(ordered.order, (std::vector<std::size_t>{1, 0}));
}

TEST(PlanRequest, TheClosestLinkRuleCounts) {
  PlanInputs inputs = example_inputs();
  inputs.links.groups = {{"lab", {"mb-0", "mb-1"}}};
  inputs.links.rules = {{"lab", "RCC-VE-C2558", 100},
                        {"Minnowboard-E3845", "RCC-VE-C2558", 200},
                        {"lab", "rcc-3", 50},
                        {"lab", "lab", 10}};
  const PlanProblem problem = make_problem(inputs, {});
  // lab, other Minnowboards, rcc-0..2, rcc-3.
  ASSERT_EQ(problem.classes.size(), 4u);
  const auto link = [&](std::size_t u, std::size_t v) { return problem.link_mbps[u * 4 + v]; };
  EXPECT_EQ(link(0, 0), 10);
  EXPECT_EQ(link(0, 1), 1000);
  EXPECT_EQ(link(0, 2), 100);
  EXPECT_EQ(link(2, 0), 100);
  EXPECT_EQ(link(0, 3), 50);
  EXPECT_EQ(link(1, 3), 200);
}

TEST(ProfileChoice, OneHostAloneMayBeFasterThanAPipelineOfSmallBatches) {
  PlanInputs inputs = example_inputs();
  PlanRequest request;
  const ProfilePlan small = plan_best_profile(inputs, request, {}, {});
  const std::optional<AloneHost> before = fastest_alone(inputs, request);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->batch_size, 8);
  EXPECT_LT(before->samples_per_s, 8 / small.outcome.period_s);
  // Large batches for nothing, on one type.
  auto& profiles = inputs.types.at(before->type).models.at(request.model);
  profiles.push_back(profiles.front());
  profiles.back().batch_size = 8 * 100;
  const std::optional<AloneHost> after = fastest_alone(inputs, request);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->batch_size, 800);
  EXPECT_DOUBLE_EQ(after->samples_per_s, 100 * before->samples_per_s);
  PlanReport report = make_report(small.problem, {}, small.outcome,
                                  name_hosts(small.problem, small.outcome.placement));
  EXPECT_FALSE(report.alone_is_faster());
  report.alone = before;
  EXPECT_FALSE(report.alone_is_faster());
  report.alone = after;
  EXPECT_TRUE(report.alone_is_faster());
  EXPECT_TRUE(report_to_json(report).at("alone").at("is_faster").as_bool());
  for (auto& [type, device] : inputs.types) device.memory_mb = 1;
  EXPECT_FALSE(fastest_alone(inputs, request));
}

TEST(ProfileChoice, TakesTheMostSamplesPerSecond) {
  PlanInputs inputs = example_inputs();
  for (auto& [name, type] : inputs.types) {
    for (auto& [model, profiles] : type.models) {
      LayerTimes more = profiles.front();
      more.batch_size = 16;
      for (double& seconds : more.time_s) seconds *= 1.8;
      LayerTimes most = more;
      most.batch_size = 32;
      for (double& seconds : most.time_s) seconds *= 2.5;
      LayerTimes half = profiles.front();
      half.dtype = "torch.bfloat16";
      for (double& seconds : half.time_s) seconds *= 0.75;
      profiles.insert(profiles.end(), {more, most, half});
    }
  }
  const PlanRequest request;
  EXPECT_EQ(measured_profiles(inputs, request.model).size(), 4u);
  const ProfilePlan fixed = plan_best_profile(inputs, request, {}, {});
  EXPECT_EQ(fixed.key, (ProfileKey{8, "torch.float32"}));
  EXPECT_EQ(fixed.tried.size(), 1u);
  const ProfilePlan batch = plan_best_profile(inputs, request, {}, {.batch_size = true});
  EXPECT_EQ(batch.key, (ProfileKey{16, "torch.float32"}));
  EXPECT_EQ(batch.tried.size(), 3u);
  EXPECT_EQ(batch.problem.batch_size, 16);
  const ProfilePlan any =
      plan_best_profile(inputs, request, {}, {.batch_size = true, .dtype = true});
  EXPECT_EQ(any.key, (ProfileKey{8, "torch.bfloat16"}));
  PlannerOptions latency;
  latency.goal = PlanGoal::kLatency;
  const ProfilePlan quick = plan_best_profile(inputs, request, latency, {.batch_size = true});
  EXPECT_EQ(quick.key, (ProfileKey{8, "torch.float32"}));
}

}  // namespace
}  // namespace harmonics::inline in_plan
