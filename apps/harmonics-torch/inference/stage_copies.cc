#include "stage_copies.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/partition.h>

namespace harmonics::inline in_torch_program {
namespace {

// The part at one end of a boundary: the one that has a consumer, or a producer, of that name.
template <typename Nodes>
std::optional<std::size_t> part_with(const std::vector<HarmonicGraph>& parts,
                                     const std::string& boundary, Nodes&& nodes) {
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const auto& all = nodes(parts[part]);
    if (std::ranges::any_of(all, [&](const auto& node) { return node.name == boundary; })) {
      return part;
    }
  }
  return std::nullopt;
}

}  // namespace

CopyTurns turns_of(const InferenceJob& job, std::size_t part) {
  return turns_of(job.plan.plan, part);
}

CopyTurns turns_of(const Plan& plan, std::size_t part) {
  if (part >= plan.stages.size()) return {};
  const PlanStage& stage = plan.stages[part];
  if (!stage.turns.empty()) return CopyTurns(stage.turns);
  return CopyTurns(std::vector<std::uint32_t>(stage.hosts.size(), 1));
}

PartCopies copies_of(const InferenceJob& job, const Seat& seat) {
  return copies_of(job.plan.plan, job.parts, seat);
}

PartCopies copies_of(const Plan& plan, const std::vector<HarmonicGraph>& parts, const Seat& seat) {
  PartCopies copies{turns_of(plan, seat.part), seat.copy, {}};
  const HarmonicGraph& graph = parts[seat.part];
  const auto note = [&](const std::string& boundary, std::optional<std::size_t> other) {
    if (is_boundary_name(boundary) && other)
      copies.others.emplace(boundary, turns_of(plan, *other));
  };
  for (const ProducerNode& node : graph.producers()) {
    note(node.name, part_with(
                        parts, node.name,
                        [](const HarmonicGraph& part) -> const auto& { return part.consumers(); }));
  }
  for (const ConsumerNode& node : graph.consumers()) {
    note(node.name, part_with(
                        parts, node.name,
                        [](const HarmonicGraph& part) -> const auto& { return part.producers(); }));
  }
  return copies;
}

std::vector<Seat> seats_of(const InferenceJob& job) {
  std::vector<Seat> seats;
  for (std::size_t part = 0; part < job.parts.size(); ++part) {
    const std::size_t copies = turns_of(job, part).copies();
    for (std::size_t copy = 0; copy < copies; ++copy) seats.push_back({part, copy});
  }
  return seats;
}

std::string seat_text(const InferenceJob& job, const Seat& seat) {
  const std::string part = format("part {} of {}", seat.part, job.parts.size());
  if (turns_of(job, seat.part).copies() == 1) return part;
  return format("{}, copy {} ({})", part, seat.copy,
                job.plan.plan.stages[seat.part].hosts[seat.copy]);
}

std::optional<double> planned_s(const InferenceJob& job, const Seat& seat) {
  const std::optional<double> all = job.planned_s(seat.part);
  if (!all) return std::nullopt;
  return *all / turns_of(job, seat.part).share_of(seat.copy);
}

void name_copy(StageFlow& flow, const InferenceJob& job, const Seat& seat) {
  job.add_plan(seat.part, flow);
  flow.planned_s = planned_s(job, seat);
  if (turns_of(job, seat.part).copies() == 1) return;
  flow.copy = seat.copy;
  flow.host = job.plan.plan.stages[seat.part].hosts[seat.copy];
}

Seat seat_of(const StageCommand& command, const Plan& plan) {
  const auto part = static_cast<std::size_t>(command.part);
  const std::size_t copies = turns_of(plan, part).copies();
  if (command.copy == kOnlyCopy && copies > 1) {
    fail(ErrorCode::kInvalidArgument,
         "part {} is planned for {} hosts that take turns ({}): say which one this is with --copy "
         "0 to {}",
         part, copies, listed(plan.stages[part].hosts), copies - 1);
  }
  const auto copy = static_cast<std::size_t>(std::max<std::int64_t>(0, command.copy));
  if (copy >= copies) {
    fail(ErrorCode::kInvalidArgument, "--copy {}: part {} has {}", copy, part,
         copies == 1 ? "one copy" : format("copies 0 to {}", copies - 1));
  }
  return {part, copy};
}

}  // namespace harmonics::inline in_torch_program
