// The search for rows of stages: hosts of any types in turns at a stage, one row or several that
// share no host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <harmonics/plan/flow_plan.h>

namespace harmonics::inline in_plan {

/// One stage: its layers and its hosts.
struct RowStage {
  FlowRange range;
  std::vector<std::size_t> hosts;
};
using Row = std::vector<RowStage>;

/// What a row makes a second if every host takes turns in proportion to its rate; 0 where a host
/// cannot hold its layers or a stage has none.
[[nodiscard]] double ideal_row_rate(const FlowProblem& problem, std::span<const RowStage> row);

/// Turns of a stage's hosts (all 1 where that is as good), as close to their rates as rounds of at
/// most `kMostTurnsInRound` allow.
inline constexpr std::uint32_t kMostTurnsInRound = 60;
[[nodiscard]] std::vector<std::uint32_t> turns_for(std::span<const double> rates);

/// What a row makes with these turns, one list for each stage.
[[nodiscard]] double row_rate_with(const FlowProblem& problem, std::span<const RowStage> row,
                                   std::span<const std::vector<std::uint32_t>> turns);

/// The best rows that were found, never worse than the best of `starts`. Deterministic.
[[nodiscard]] std::vector<Row> search_rows(const FlowProblem& problem,
                                           std::span<const std::vector<Row>> starts,
                                           std::uint64_t work);

}  // namespace harmonics::inline in_plan
