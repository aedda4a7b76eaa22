// What each part of a stream did with its time: as a table, as JSON, and between processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/plan/plan.h>
#include <harmonics/schedule/stream.h>

namespace harmonics::inline in_torch_program {

/// What a plan says of a stage.
struct StagePlan {
  PlanStage stage;
  StageCosts costs;
};

struct StageFlow {
  PartFlow flow;
  /// Seconds from one batch to the next that a plan said.
  std::optional<double> planned_s = std::nullopt;
  /// Of the parts, from 0.
  std::int64_t number = 0;
  /// Where several hosts take turns at the part: which this is, and its name.
  std::optional<std::size_t> copy = {};
  std::string host = {};
  /// Inside its operations; 0: libtorch's choice.
  std::int64_t threads = 0;
  /// Where it ran: equal for parts on one machine, and the cores that they may use there.
  std::string machine = {};
  std::int64_t cores = 0;
  /// Where the plan's report says what each stage takes for what.
  std::optional<StagePlan> plan = std::nullopt;
};

[[nodiscard]] Json flow_json(const StageFlow& stage);
/// But for the plan, which is not read back. Text that is no such object is an Error.
[[nodiscard]] StageFlow flow_of(const Json& json);
[[nodiscard]] Json flows_json(const std::vector<StageFlow>& stages);
/// A line for each part: periods, shares of its time, bytes sent.
[[nodiscard]] std::string flows_text(const std::vector<StageFlow>& stages, bool colour);
/// A name for this machine that parts on it share, also in other network namespaces, and the cores
/// that this process may use.
[[nodiscard]] std::string own_machine();
[[nodiscard]] std::int64_t own_cores();

/// What a part did in two attempts of one run.
void add_flow(StageFlow& all, const StageFlow& more);

}  // namespace harmonics::inline in_torch_program
