#include "pipeline_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/plan/planner.h>

#include "plan_words.h"

namespace harmonics::inline in_server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kGraph = R"(
harmonic net {
  producer image {64};
  producer label {1} int64;
  layer a linear(512);
  layer b linear(512);
  layer c linear(512);
  layer d linear(10);
  cycle {
    image -(relu)-> a -(relu)-> b -(relu)-> c -> d;
    d <-(cross_entropy)- label;
  }
})";

PipelineSpec pipeline(std::uint32_t stages) {
  PipelineSpec spec;
  spec.model = "net.harp";
  spec.graph = kGraph;
  spec.stages = stages;
  spec.settings = {{"batch_size", "32"}, {"micro_batches", "4"}};
  return spec;
}

StagePlace place(const std::string& name, std::uint32_t id) {
  StagePlace place;
  place.place.worker = WorkerId{id};
  place.place.spec.name = name;
  place.place.spec.address = "localhost:1";
  place.place.spec.memory_mb = 4096;
  return place;
}

/// Seconds for each of the four layers.
StagePlace measured(const std::string& name, std::uint32_t id, double seconds) {
  StagePlace one = place(name, id);
  one.measured = MeasuredWorker{std::vector<double>(4, seconds), 0};
  return one;
}

TEST(PipelinePlan, HasExactlyAsManyStagesAsWished) {
  const auto plan = plan_pipeline(pipeline(3), {place("x", 1), place("y", 2), place("z", 3)});
  EXPECT_EQ(plan.stages.size(), 3U);
  EXPECT_EQ(plan.text.at("micro_batch").as_integer(), 8);
  EXPECT_EQ(plan.text.at("stages").as_array().size(), 3U);
  EXPECT_FALSE(plan.text.at("workers").as_array()[0].at("measured").as_bool());
}

TEST(PipelinePlan, MakesDoWithTheWorkersThatAreLeft) {
  EXPECT_EQ(plan_pipeline(pipeline(3), {place("x", 1), place("y", 2)}).stages.size(), 2U);
}

TEST(PipelinePlan, TakesTheFastestAndGivesThemMore) {
  const auto plan = plan_pipeline(
      pipeline(2),
      {measured("slow", 1, 1.0), measured("slower", 2, 2.0), measured("fast", 3, 0.3)});
  const auto& stages = plan.text.at("stages").as_array();
  ASSERT_EQ(stages.size(), 2U);
  for (const Json& stage : stages) {
    const auto& layers = stage.at("layers").as_array();
    const std::int64_t count = layers[1].as_integer() - layers[0].as_integer() + 1;
    EXPECT_EQ(count, stage.at("worker").as_string() == "fast" ? 3 : 1);
    EXPECT_NE(stage.at("worker").as_string(), "slower");
  }
  EXPECT_DOUBLE_EQ(plan.text.at("period_s").as_number(), 1.0);
  const std::string words = explain_plan(plan.text.dump());
  EXPECT_THAT(words, HasSubstr("slower (8000.000 ms for the whole graph, measured)"));
}

TEST(PipelinePlan, LeftAloneItLeavesOutWhoWouldSlowItDown) {
  const auto plan =
      plan_pipeline(pipeline(0), {measured("slow", 1, 50.0), measured("fast", 2, 0.001)});
  EXPECT_THAT(plan.stages, ElementsAre(1U));
  EXPECT_TRUE(plan.text.at("proven").as_bool());
}

TEST(PipelinePlan, SaysWhatItRestsOn) {
  const auto words = [](std::vector<StagePlace> places) {
    return explain_plan(plan_pipeline(pipeline(2), places).text.dump());
  };
  StagePlace trained = place("x", 1);
  trained.trained = {{1, 2, 0.5}};
  EXPECT_THAT(words({place("x", 1), place("y", 2)}), HasSubstr("The plan rests on estimates"));
  EXPECT_THAT(words({measured("x", 1, 1.0), measured("y", 2, 1.0)}),
              HasSubstr("The plan rests on measurements."));
  const std::string mixed = words({trained, place("y", 2)});
  EXPECT_THAT(mixed, HasSubstr("measurements of 1 of 2 workers"));
  EXPECT_THAT(mixed, HasSubstr("measured in training)"));
}

TEST(PipelinePlan, WhoTrainedSlowlyGetsLess) {
  StagePlace slow = place("slow", 1);
  slow.trained = {{1, 2, 2.0}};
  StagePlace fast = place("fast", 2);
  fast.trained = {{3, 4, 0.01}};
  const PipelinePlan plan = plan_pipeline(pipeline(2), {slow, fast});
  for (const Json& stage : plan.text.at("stages").as_array()) {
    const auto& layers = stage.at("layers").as_array();
    const std::int64_t count = layers[1].as_integer() - layers[0].as_integer() + 1;
    EXPECT_EQ(count, stage.at("worker").as_string() == "fast" ? 3 : 1);
  }
}

TEST(PipelinePlan, APlanIsReckonedAgainWithWhatIsKnownNow) {
  const std::vector<StagePlace> before = {place("x", 1), place("y", 2)};
  const PipelinePlan plan = plan_pipeline(pipeline(2), before);
  const std::string text = plan.text.dump();
  EXPECT_DOUBLE_EQ(*period_with(pipeline(2), before, text), plan.text.at("period_s").as_number());
  EXPECT_NEAR(*period_with(pipeline(2), {measured("y", 2, 4.0), measured("x", 1, 4.0)}, text), 8.0,
              4.01);
  EXPECT_FALSE(period_with(pipeline(2), {place("x", 1), place("z", 3)}, text));
}

TEST(PipelinePlan, WhatCanNeverWorkIsAnInvalidArgument) {
  const auto code = [](const PipelineSpec& spec) {
    try {
      static_cast<void>(plan_pipeline(spec, {place("x", 1)}));
      return ErrorCode::kInternal;
    } catch (const Error& error) {
      return error.code();
    }
  };
  EXPECT_EQ(code(pipeline(5)), ErrorCode::kInvalidArgument);
  PipelineSpec broken = pipeline(1);
  broken.graph = "harmonic";
  EXPECT_EQ(code(broken), ErrorCode::kInvalidArgument);
  PipelineSpec odd = pipeline(1);
  odd.settings = {{"batch_size", "many"}};
  EXPECT_EQ(code(odd), ErrorCode::kInvalidArgument);
}

TEST(PipelinePlan, TooLittleMemoryIsNoFeasiblePlan) {
  StagePlace small = place("small", 1);
  small.place.spec.memory_mb = 1;
  EXPECT_THROW(static_cast<void>(plan_pipeline(pipeline(0), {small})), NoFeasiblePlan);
  EXPECT_THROW(static_cast<void>(plan_pipeline(pipeline(1), {small})), NoFeasiblePlan);
}

/// The same graph with something that comes out of it, and rows to run over.
PipelineSpec inference(std::uint32_t stages) {
  PipelineSpec spec = pipeline(stages);
  const std::size_t end = spec.graph.find("  cycle {");
  spec.graph.insert(end, "  consumer rows;\n  consumer early;\n");
  spec.graph.insert(spec.graph.find("    d <-"), "    d -> rows;\n    a -> early;\n");
  spec.settings = {{"batch_size", "32"}};
  spec.infer = true;
  spec.weights = "w";
  spec.outputs = {{"rows", "csv:rows.csv"}, {"early", "csv:e.csv"}};
  return spec;
}

TEST(PipelinePlan, OneThatInfersCostsAPassAndNamesItsFiles) {
  const std::vector<StagePlace> places = {place("x", 1), place("y", 2)};
  const auto plan = plan_pipeline(inference(2), places);
  const auto training = plan_pipeline(pipeline(2), places);
  EXPECT_EQ(plan.text.at("micro_batch").as_integer(), 32);
  const auto whole_s = [](const PipelinePlan& one) {
    return one.text.at("workers").as_array()[0].at("whole_graph_s").as_number();
  };
  // Four times the rows, a third of the work for each.
  EXPECT_NEAR(whole_s(plan) / whole_s(training), 4.0 / 3, 1e-9);
  const auto& stages = plan.text.at("stages").as_array();
  EXPECT_EQ(stages[0].at("out").dump(), R"(["e.csv"])");
  EXPECT_EQ(stages[1].at("out").dump(), R"(["rows.csv"])");
  EXPECT_LT(stages[0].at("memory_mb").as_number(),
            training.text.at("stages").as_array()[0].at("memory_mb").as_number());
  EXPECT_EQ(training.text.find("infer"), nullptr);
  EXPECT_EQ(training.text.at("stages").as_array()[1].find("out"), nullptr);
}

TEST(PipelinePlan, OneThatInfersNeedsNoTapButItsOutputs) {
  PipelineSpec spec = inference(1);
  const std::size_t tap = spec.graph.find("    d <-");
  spec.graph.erase(tap, spec.graph.find('\n', tap) - tap);
  EXPECT_EQ(plan_pipeline(spec, {place("x", 1)}).stages.size(), 1U);
  spec.outputs.emplace_back("none", "csv:none.csv");
  try {
    static_cast<void>(plan_pipeline(spec, {place("x", 1)}));
    FAIL() << "an output that the graph lacks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("rows"));
  }
}

TEST(PlanWords, TellPeriodsAndWhereRowsAre) {
  auto plan = plan_pipeline(inference(2), {measured("x", 1, 0.5), measured("y", 2, 0.5)});
  plan.text.set("access", Json().set("token", "secret").set("folder", "/shared/task-7"));
  const std::string text = plan.text.dump();
  EXPECT_THAT(explain_plan(text), HasSubstr("A batch of 32 leaves every 1000.000 ms"));
  EXPECT_THAT(explain_plan(text),
              HasSubstr("Rows that came out are kept in /shared/task-7/results."));
  EXPECT_THAT(explain_plan(text), Not(HasSubstr("Measured periods")));
  const std::string worker = plan.text.at("stages").as_array()[1].at("worker").as_string();
  EXPECT_THAT(explain_plan(text, {"", R"({"rows": 5, "period_s": 1.25})"}),
              HasSubstr("Measured periods: " + worker + " 1250.000 ms (planned 1000.000 ms)."));
  const Json open = Json::parse(public_plan(text), "plan");
  EXPECT_EQ(open.at("results").as_string(), "/shared/task-7/results");
  EXPECT_EQ(open.find("checkpoint"), nullptr);
  EXPECT_EQ(open.find("access"), nullptr);
}

TEST(PlanWords, SecretsStayWithTheStages) {
  PipelinePlan plan = plan_pipeline(pipeline(1), {place("x", 1)});
  plan.text.set("access", Json().set("token", "secret"));
  EXPECT_THAT(public_plan(plan.text.dump()), Not(HasSubstr("secret")));
  EXPECT_THAT(public_plan(plan.text.dump()), HasSubstr("period_s"));
  EXPECT_EQ(public_plan("no plan"), "");
}

TEST(PlanWords, TellWhereTheWeightsAre) {
  PipelinePlan plan = plan_pipeline(pipeline(1), {place("x", 1)});
  plan.text.set("access", Json().set("token", "secret").set("folder", "/srv/runs/7"));
  EXPECT_THAT(public_plan(plan.text.dump()), HasSubstr(R"("checkpoint":"/srv/runs/7/checkpoint")"));
  EXPECT_THAT(explain_plan(plan.text.dump()),
              HasSubstr("Its checkpoint is /srv/runs/7/checkpoint."));
  EXPECT_THAT(explain_plan(plan.text.dump()), testing::StartsWith("Its 1 stage: x has a to d"));
  plan.text.set("measure", true);
  EXPECT_THAT(public_plan(plan.text.dump()), Not(HasSubstr("checkpoint")));
}

}  // namespace
}  // namespace harmonics::inline in_server
