// What each part of a stream did with its time: as a table, as JSON, and between processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/schedule/stream.h>

namespace harmonics::inline in_torch_program {

struct StageFlow {
  PartFlow flow;
  /// Seconds from one batch to the next that a plan said.
  std::optional<double> planned_s;
};

[[nodiscard]] Json flow_json(const StageFlow& stage);
/// Text that is no such object is an Error.
[[nodiscard]] StageFlow flow_of(const Json& json);
[[nodiscard]] Json flows_json(const std::vector<StageFlow>& stages);
/// A line for each part: periods, shares of its time, bytes sent.
[[nodiscard]] std::string flows_text(const std::vector<StageFlow>& stages, bool colour);
/// What a part did in two attempts of one run.
void add_flow(StageFlow& all, const StageFlow& more);

}  // namespace harmonics::inline in_torch_program
