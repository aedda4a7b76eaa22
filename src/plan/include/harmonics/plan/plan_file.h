// A plan as whoever runs it is given it: the list alone, or the whole report.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/plan/plan.h>

namespace harmonics::inline in_plan {

/// What a list does not say is empty or 0.
struct PlanFile {
  Plan plan;
  std::string model = {};
  std::int64_t batch_size = 0;
  /// What was planned for each stage: seconds from one micro-batch to the next.
  std::vector<double> periods_s = {};
  std::string dtype = {};
  /// What each stage was planned to take for what; empty where the report does not say.
  std::vector<StageCosts> costs = {};
  /// Batches under way in all stages; 0: the report does not say.
  std::size_t in_flight = 0;
  /// Bits of what leaves each stage but the last; empty where the plan says nothing.
  std::vector<int> boundary_bits = {};
};

/// Whether a text is a report rather than a list: an object of JSON.
[[nodiscard]] bool is_plan_report(std::string_view text);

/// Reads the list of docs/formats/plan.md, or the report that `harmonics plan --output json` and
/// `sched-pipeline --report json` write. Errors are those of parse_plan, or say which member of the
/// report is missing.
[[nodiscard]] PlanFile parse_plan_file(std::string_view text, std::string_view name);

/// Where hosts are reached, "address:port" by host: a YAML map of names to texts. Anything else is
/// an Error with file and line.
using HostAddresses = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] HostAddresses parse_host_addresses(std::string_view text, std::string_view name);

}  // namespace harmonics::inline in_plan
