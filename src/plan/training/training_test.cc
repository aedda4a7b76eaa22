#include <harmonics/plan/training.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/plan/pipeline_time.h>

#include <error_testing.h>

namespace harmonics::inline in_plan {
namespace {

using ::testing::HasSubstr;

constexpr double kMega = kBytesPerMegabyte;

// Four layers on two hosts: 1 s forward and 2 s back each.
PlanProblem four_layers() {
  PlanProblem problem;
  problem.model = "m-training";
  problem.batch_size = 8;
  problem.layer_memory_mb.assign(4, 30);
  problem.cut_bytes = {5 * kMega, 2 * kMega, 3 * kMega, 2 * kMega, 1 * kMega};
  problem.training = {{10, 11, 12, 13}, {1, 2, 3, 4}, {7, 5, 9, 6}};
  for (const char* name : {"desk", "shelf"}) {
    HostClass hosts;
    hosts.type = name;
    hosts.hosts = {name};
    hosts.bandwidth_mbps = 24;  // three megabytes a second
    hosts.memory_mb = 1000;
    hosts.layer_time_s.assign(4, 3);
    hosts.forward_time_s.assign(4, 1);
    problem.classes.push_back(hosts);
  }
  return problem;
}

const Placement kHalves = {{0, 2, 0, 1}, {2, 4, 1, 1}};

TEST(Training, PlaysThePassesOfThePlan) {
  const PlanProblem problem = four_layers();
  std::vector<StagePasses> row(2, {.forward_s = 2, .backward_s = 4});
  row[0].sent_bytes = row[0].returned_bytes = row[0].bytes_per_s = 3 * kMega;
  for (const PipelineOrder order :
       {PipelineOrder::Sequential, PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe}) {
    const PlannedTraining planned = plan_training(problem, {}, kHalves, {order, 6});
    EXPECT_DOUBLE_EQ(planned.batch_s, batch_time_s(row, order, 6));
    EXPECT_DOUBLE_EQ(planned.period_s(), planned.batch_s / 6);
  }
  // What does not overlap is on top of both passes: a second at each stage, each way.
  const double alone =
      plan_training(problem, {.overlap = Overlap::kNone}, kHalves, {PipelineOrder::Sequential, 6})
          .batch_s;
  EXPECT_DOUBLE_EQ(alone, 6 * (2 * 6 + 2 * 2));
}

TEST(Training, TiedParametersTravelBackOnly) {
  PlanProblem problem = four_layers();
  const TrainingWish wish{PipelineOrder::Sequential, 1};
  const double before = plan_training(problem, {}, kHalves, wish).batch_s;
  problem.tied_bytes = {0, 0, 6 * kMega, 0, 0};
  EXPECT_DOUBLE_EQ(plan_training(problem, {}, kHalves, wish).batch_s, before + 2);
}

TEST(Training, AStageHoldsWhatIsInFlight) {
  const PlanProblem problem = four_layers();
  const auto megabytes = [&](PipelineOrder order, std::size_t stage) {
    return plan_training(problem, {}, kHalves, {order, 6}).stages[stage].memory_bytes / kMega;
  };
  // 21 of weights and state, 7 of scratch, 9 of messages; 3 kept of each in flight; 5 entered of
  // each of the batch.
  EXPECT_DOUBLE_EQ(megabytes(PipelineOrder::Sequential, 0), 21 + 7 + 9 + 6 * 5 + 1 * 3);
  EXPECT_DOUBLE_EQ(megabytes(PipelineOrder::OneForwardOneBackward, 0), 21 + 7 + 9 + 6 * 5 + 2 * 3);
  EXPECT_DOUBLE_EQ(megabytes(PipelineOrder::GPipe, 0), 21 + 7 + 9 + 6 * (3 + 5));
  EXPECT_DOUBLE_EQ(megabytes(PipelineOrder::OneForwardOneBackward, 1), 25 + 9 + 9 + 1 * (7 + 3));
  EXPECT_DOUBLE_EQ(megabytes(PipelineOrder::GPipe, 1), 25 + 9 + 9 + 6 * (7 + 3));
}

TEST(Training, WhatWasMeasuredForInferenceIsRefused) {
  PlanProblem problem = four_layers();
  EXPECT_TRUE(is_trained(problem));
  problem.classes[1].forward_time_s.clear();
  EXPECT_FALSE(is_trained(problem));
  expect_error(ErrorCode::kFailedPrecondition, "--mode training",
               [&] { static_cast<void>(plan_training(problem, {}, kHalves, {})); });
}

TEST(Training, SaysItInALineAndAsJson) {
  const PlannedTraining planned =
      plan_training(four_layers(), {}, kHalves, {PipelineOrder::GPipe, 6});
  EXPECT_THAT(training_to_text(planned, 8),
              HasSubstr("training in gpipe order, 6 micro-batches of 8: "));
  const Json json = training_to_json(planned);
  EXPECT_EQ(json.at("pipeline").as_string(), "gpipe");
  EXPECT_EQ(json.at("stages").as_array().size(), 2U);
  EXPECT_EQ(json.at("stages").as_array()[1].at("in_flight").as_integer(), 6);
}

}  // namespace
}  // namespace harmonics::inline in_plan
