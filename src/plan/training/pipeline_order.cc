#include <harmonics/plan/pipeline_order.h>

#include <algorithm>
#include <array>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_plan {
namespace {

constexpr std::array<std::pair<PipelineOrder, std::string_view>, 3> kOrderNames = {{
    {PipelineOrder::Sequential, "sequential"},
    {PipelineOrder::OneForwardOneBackward, "1f1b"},
    {PipelineOrder::GPipe, "gpipe"},
}};

}  // namespace

PipelineOrder pipeline_order_from_name(std::string_view name) {
  for (const auto& [order, known] : kOrderNames) {
    if (known == name) return order;
  }
  fail(ErrorCode::kInvalidArgument,
       "there is no pipeline order '{}'; choose sequential, 1f1b or gpipe", name);
}

std::string_view pipeline_order_name(PipelineOrder order) {
  for (const auto& [known, name] : kOrderNames) {
    if (known == order) return name;
  }
  return "?";
}

std::size_t most_in_flight(PipelineOrder order, std::uint32_t micro_batches, std::size_t depth) {
  const std::size_t most = order == PipelineOrder::Sequential ? 1
                           : order == PipelineOrder::GPipe    ? micro_batches
                                                              : std::max<std::size_t>(depth, 1);
  return std::min<std::size_t>(most, micro_batches);
}

// The three orders differ only in how many micro-batches a stage may hold at once.
std::vector<Pass> pipeline_passes(PipelineOrder order, std::uint32_t micro_batches,
                                  std::size_t depth) {
  const std::size_t most = most_in_flight(order, micro_batches, depth);
  std::vector<Pass> passes;
  passes.reserve(2 * static_cast<std::size_t>(micro_batches));
  std::uint32_t forward = 0;
  std::uint32_t backward = 0;
  while (backward < micro_batches) {
    if (forward < micro_batches && forward - backward < most) {
      passes.push_back({Pass::Direction::kForward, forward++});
    } else {
      HARMONICS_CHECK(backward < forward, "micro-batch {} goes back before it went forward",
                      backward);
      passes.push_back({Pass::Direction::kBackward, backward++});
    }
  }
  HARMONICS_CHECK(forward == micro_batches && backward == micro_batches,
                  "a pipeline's order has {} passes forward and {} back for {} micro-batches",
                  forward, backward, micro_batches);
  return passes;
}

}  // namespace harmonics::inline in_plan
