#include <algorithm>
#include <cmath>

#include <harmonics/base/listed.h>
#include <harmonics/plan/generation.h>

namespace harmonics::inline in_plan {
namespace {

constexpr std::size_t kNamedHosts = 8;

std::string host_of(const GenerationReport& report, std::size_t stage) {
  return report.plan.stages[stage].hosts.front();
}

// The stage with the longest period, of steps or of chunks.
std::size_t slowest(const GenerationReport& report, bool chunks) {
  std::size_t most = 0;
  const auto period = [&](std::size_t k) {
    return chunks ? report.stages[k].prefill.period_s : report.stages[k].decode.period_s;
  };
  for (std::size_t k = 1; k < report.stages.size(); ++k) {
    if (period(k) > period(most)) most = k;
  }
  return most;
}

std::string part_of(const StageCosts& costs) {
  if (costs.compute_s >= costs.receive_s && costs.compute_s >= costs.send_s) return "computing";
  return costs.receive_s >= costs.send_s ? "receiving over its network"
                                         : "sending over its network";
}

std::string what_binds(const GenerationReport& report) {
  const GenerationFigures& figures = report.outcome.figures;
  const std::size_t k = slowest(report, false);
  const double busy = static_cast<double>(figures.in_flight) * figures.period_s;
  if (busy >= figures.way_s) {
    return format(
        "Tokens: {} binds. Its stage is always at work, {:.3f} ms for each of the {} steps in "
        "flight, most of it {}.",
        host_of(report, k), figures.period_s * 1e3, figures.in_flight,
        part_of(report.stages[k].decode));
  }
  double links = 0;
  for (const GenerationReport::Stage& stage : report.stages) links += stage.decode.transfer_s;
  return format(
      "Tokens: the way binds. A step is under way for {:.3f} ms, {:.3f} ms of it on links; the "
      "slowest stage ({}) is at work for {:.0f} % of that.",
      figures.way_s * 1e3, links * 1e3, host_of(report, k), 100 * busy / figures.way_s);
}

std::string first_token(const GenerationReport& report) {
  const GenerationFigures& figures = report.outcome.figures;
  if (figures.chunks == 1) {
    return format("First token: the prompt goes through in one piece, {:.3f} ms.",
                  figures.chunk_way_s * 1e3);
  }
  return format(
      "First token: {} chunks follow one another, {:.3f} ms apart at {}, and the last is under way "
      "for {:.3f} ms.",
      figures.chunks, figures.chunk_period_s * 1e3, host_of(report, slowest(report, true)),
      figures.chunk_way_s * 1e3);
}

std::string memory(const GenerationReport& report) {
  std::size_t fullest = 0;
  const auto share = [&](std::size_t k) {
    const StageCosts& costs = report.stages[k].decode;
    return costs.memory_bytes / costs.capacity_bytes;
  };
  for (std::size_t k = 1; k < report.stages.size(); ++k) {
    if (share(k) > share(fullest)) fullest = k;
  }
  const GenerationReport::Stage& stage = report.stages[fullest];
  return format("Memory: {} is the fullest, {:.1f} of {:.1f} MB, of which {:.1f} MB are caches.",
                host_of(report, fullest), stage.decode.memory_bytes / kBytesPerMegabyte,
                stage.decode.capacity_bytes / kBytesPerMegabyte,
                stage.cache_bytes / kBytesPerMegabyte);
}

std::string other_number(const GenerationModel& model, const GenerationReport& report,
                         std::int64_t sequences) {
  GenerationWish wish = model.wish();
  wish.sequences = sequences;
  try {
    const GenerationModel other(model.inputs(), wish);
    const GenerationOutcome outcome = plan_generation(other, report.options);
    const GenerationReport made = make_generation_report(other, report.options, outcome);
    const double change =
        outcome.figures.tokens_per_s() / report.outcome.figures.tokens_per_s() - 1;
    return format(
        "With {} sequences: {:.2f} tokens/s ({}{:.0f} %), the first token after {:.3f} ms, {}.",
        sequences, outcome.figures.tokens_per_s(), change < 0 ? "" : "+", 100 * change,
        outcome.figures.first_token_s * 1e3,
        made.plan == report.plan ? "with the same cut" : "with another cut");
  } catch (const NoFeasiblePlan&) {
    return format("With {} sequences there is no plan: there is room for {}.", sequences,
                  most_sequences(model.inputs(), wish, report.options));
  }
}

std::string idle_hosts(const GenerationModel& model, const GenerationReport& report) {
  std::vector<std::string> idle;
  for (const auto& [type, hosts] : model.inputs().hosts) {
    for (const std::string& host : hosts) {
      const auto uses = [&](const PlanStage& stage) { return stage.hosts.front() == host; };
      if (std::ranges::none_of(report.plan.stages, uses)) idle.push_back(host);
    }
  }
  if (idle.empty()) return "Every host has layers.";
  if (idle.size() > kNamedHosts) return format("Hosts without layers: {}.", idle.size());
  return format("Hosts without layers: {}; with them no plan is better, or none fits.",
                listed(idle));
}

}  // namespace

std::vector<std::string> explain_generation(const GenerationModel& model,
                                            const GenerationReport& report) {
  std::vector<std::string> lines = {what_binds(report), first_token(report), memory(report)};
  lines.push_back(idle_hosts(model, report));
  const std::int64_t sequences = model.wish().sequences;
  if (sequences > 1) lines.push_back(other_number(model, report, sequences / 2));
  if (sequences * 2 <= kMaxPlannedSequences) {
    lines.push_back(other_number(model, report, sequences * 2));
  }
  return lines;
}

}  // namespace harmonics::inline in_plan
