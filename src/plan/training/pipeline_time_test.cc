#include <harmonics/plan/pipeline_time.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <harmonics/base/random.h>

#include <error_testing.h>

namespace harmonics::inline in_plan {
namespace {

constexpr PipelineOrder kSequential = PipelineOrder::Sequential;
constexpr PipelineOrder k1F1B = PipelineOrder::OneForwardOneBackward;
constexpr PipelineOrder kGPipe = PipelineOrder::GPipe;

// Two stages that compute for 1 s forward and 2 s back, over a link that takes `send_s` each way.
std::vector<StagePasses> two_stages(double send_s) {
  std::vector<StagePasses> stages(2, {.forward_s = 1, .backward_s = 2});
  stages[0].sent_bytes = stages[0].returned_bytes = 100 * send_s;
  stages[0].bytes_per_s = 100;
  return stages;
}

TEST(PipelineTime, OneStageTakesTheSumWhateverTheOrder) {
  const std::vector<StagePasses> one(1, {.forward_s = 1, .backward_s = 2});
  for (const PipelineOrder order : {kSequential, k1F1B, kGPipe}) {
    EXPECT_DOUBLE_EQ(batch_time_s(one, order, 5), 15);
  }
  EXPECT_EQ(batch_time_s({}, k1F1B, 5), 0);
  EXPECT_EQ(batch_time_s(one, k1F1B, 0), 0);
}

TEST(PipelineTime, WithoutALinkTheBubbleIsThatOfTheTextbook) {
  // (m + p - 1) passes each way, for 1F1B as for GPipe; one after the other: m * p.
  EXPECT_DOUBLE_EQ(batch_time_s(two_stages(0), k1F1B, 4), 5 * 3);
  EXPECT_DOUBLE_EQ(batch_time_s(two_stages(0), kGPipe, 4), 5 * 3);
  EXPECT_DOUBLE_EQ(batch_time_s(two_stages(0), kSequential, 4), 4 * 2 * 3);
}

// What this is for: GPipe uses a link one way and then the other, 1F1B both ways at once; so where
// the link binds GPipe takes nearly twice as long.
TEST(PipelineTime, WhereTheLinkBindsGPipeTakesTwiceAsLong) {
  const double send_s = 100;
  const std::uint32_t count = 64;
  const double gpipe = batch_time_s(two_stages(send_s), kGPipe, count);
  const double both_ways = batch_time_s(two_stages(send_s), k1F1B, count);
  EXPECT_NEAR(gpipe, 2 * count * send_s, 0.01 * gpipe);
  EXPECT_NEAR(both_ways, count * send_s, 0.06 * both_ways);
  EXPECT_NEAR(batch_time_s(two_stages(send_s), kSequential, count), count * (2 * send_s + 6), 1e-6);
}

TEST(PipelineTime, A1F1BStageWaitsForTheAnswerOfItsOldestMicroBatch) {
  // F0 F1 | B0 at 1 + 1 + (1 + 2) + 1 ...: by hand, with 1 s for each transfer.
  // stage 1: F0 0-1, F1 1-2; F0 comes at 2, stage 2: F0 2-3, B0 3-5, its gradient comes at 6;
  // stage 1: B0 6-8; stage 2: F1 5-6, B1 6-8, comes at 9; stage 1: B1 9-11.
  EXPECT_DOUBLE_EQ(batch_time_s(two_stages(1), k1F1B, 2), 11);
  std::vector<StagePasses> late = two_stages(1);
  late[0].latency_s = 10;
  EXPECT_DOUBLE_EQ(batch_time_s(late, k1F1B, 2), 31);
}

TEST(PipelineTime, AHostInTheMiddleSendsOneThingAtATime) {
  std::vector<StagePasses> stages(3, {.forward_s = 0.001, .backward_s = 0.001});
  for (std::size_t k = 0; k < 2; ++k) {
    stages[k].sent_bytes = stages[k].returned_bytes = stages[k].bytes_per_s = 1;
  }
  // Its activations and its gradients leave over one cable: two seconds a micro-batch.
  const std::uint32_t count = 100;
  EXPECT_NEAR(batch_time_s(stages, k1F1B, count) / count, 2, 0.1);
}

TEST(PipelineTime, HostsThatTakeTurnsShareAStage) {
  std::vector<StagePasses> stages = {{.forward_s = 1, .backward_s = 1},
                                     {.forward_s = 3, .backward_s = 3, .copies = 3}};
  const std::uint32_t count = 60;
  EXPECT_NEAR(batch_time_s(stages, kGPipe, count), 2 * count, 8);
  stages[1].copies = 1;
  EXPECT_NEAR(batch_time_s(stages, kGPipe, count), 6 * count, 8);
}

// Whatever the stages: no order is faster than its slowest stage or its links, none slower than one
// thing after the other; and a longer pass or message never makes a single link's batch shorter.
TEST(PipelineTime, LiesBetweenItsBounds) {
  Random random(1, "pipeline_time");
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t count = 1 + random.below(12);
    std::vector<StagePasses> stages(1 + random.below(5));
    double all = 0;
    double least = 0;
    for (StagePasses& stage : stages) {
      stage = {.forward_s = 0.1 * random.below(20),
               .backward_s = 0.1 * random.below(20),
               .sent_bytes = 1.0 * random.below(20),
               .returned_bytes = 1.0 * random.below(20),
               .bytes_per_s = 10,
               .latency_s = 0.01 * random.below(3)};
      const bool last = &stage == &stages.back();
      const double compute = stage.forward_s + stage.backward_s;
      const double moved = last ? 0 : (stage.sent_bytes + stage.returned_bytes) / 10;
      all += count * (compute + moved + (last ? 0 : 2 * stage.latency_s));
      least = std::max(least, count * compute);
      if (!last)
        least = std::max(least, count * std::max(stage.sent_bytes, stage.returned_bytes) / 10);
    }
    EXPECT_NEAR(batch_time_s(stages, kSequential, count), all, 1e-6);
    for (const PipelineOrder order : {k1F1B, kGPipe}) {
      const double time = batch_time_s(stages, order, count);
      EXPECT_GE(time, least - 1e-9);
      EXPECT_LE(time, all + 1e-9);
    }
  }
}

TEST(PipelineTime, HasACeiling) {
  const std::vector<StagePasses> many(1000, {.forward_s = 1, .backward_s = 1});
  EXPECT_GT(batch_time_s(many, k1F1B, 4), 0);
  expect_error(ErrorCode::kResourceExhausted, "fewer micro-batches",
               [&] { static_cast<void>(batch_time_s(many, k1F1B, kMaxPlayedPasses / 1000 + 1)); });
}

}  // namespace
}  // namespace harmonics::inline in_plan
