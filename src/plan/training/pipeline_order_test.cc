#include <harmonics/plan/pipeline_order.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

std::string text(PipelineOrder order, std::uint32_t micro_batches, std::size_t depth) {
  std::string out;
  for (const Pass& pass : pipeline_passes(order, micro_batches, depth)) {
    if (!out.empty()) out += ' ';
    out += pass.direction == Pass::Direction::kForward ? 'F' : 'B';
    out += std::to_string(pass.micro_batch);
  }
  return out;
}

TEST(Pipeline, SequentialHoldsOneMicroBatch) {
  EXPECT_EQ(text(PipelineOrder::Sequential, 3, 4), "F0 B0 F1 B1 F2 B2");
}

TEST(Pipeline, GPipeHoldsAll) { EXPECT_EQ(text(PipelineOrder::GPipe, 3, 1), "F0 F1 F2 B0 B1 B2"); }

TEST(Pipeline, OneForwardOneBackwardWarmsUpByDepth) {
  EXPECT_EQ(text(PipelineOrder::OneForwardOneBackward, 4, 1), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text(PipelineOrder::OneForwardOneBackward, 4, 2), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(PipelineOrder::OneForwardOneBackward, 4, 3), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(PipelineOrder::OneForwardOneBackward, 2, 5), "F0 F1 B0 B1");
}

TEST(Pipeline, EveryMicroBatchPassesBothWaysInOrderWithinTheLimit) {
  for (const PipelineOrder order :
       {PipelineOrder::Sequential, PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe}) {
    for (std::uint32_t count = 0; count <= 9; ++count) {
      for (std::size_t depth = 1; depth <= 6; ++depth) {
        std::uint32_t forward = 0, backward = 0, most = 0;
        for (const Pass& pass : pipeline_passes(order, count, depth)) {
          std::uint32_t& next = pass.direction == Pass::Direction::kForward ? forward : backward;
          ASSERT_EQ(pass.micro_batch, next++);
          ASSERT_LE(backward, forward);
          most = std::max(most, forward - backward);
        }
        EXPECT_EQ(forward, count);
        EXPECT_EQ(backward, count);
        if (order == PipelineOrder::OneForwardOneBackward) {
          EXPECT_EQ(most, std::min<std::size_t>(depth, count));
        }
      }
    }
  }
}

TEST(Pipeline, NamesThereAndBack) {
  for (const char* name : {"sequential", "1f1b", "gpipe"}) {
    EXPECT_EQ(pipeline_order_name(pipeline_order_from_name(name)), name);
  }
  try {
    static_cast<void>(pipeline_order_from_name("zigzag"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "there is no pipeline order 'zigzag'; choose sequential, 1f1b or gpipe");
  }
}

}  // namespace
}  // namespace harmonics::inline in_plan
