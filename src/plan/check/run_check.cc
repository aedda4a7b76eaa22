#include <harmonics/plan/run_check.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_plan {
namespace {

constexpr std::array<std::string_view, 4> kFaultNames = {"compute", "contention", "link",
                                                         "in flight"};

std::string ms(double seconds) { return format("{:.3f} ms", 1e3 * seconds); }

// What is compared, stage after stage.
class RunComparison {
 public:
  explicit RunComparison(RunCheck& check) : check_(check), stages_(check.run.stages) {}

  void run() {
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      compare_compute(k);
      find_contention(k);
      compare_link(k);
    }
    find_waiting();
  }

 private:
  // Differs by more than the tolerance, of itself and of what a batch takes.
  [[nodiscard]] bool differs(double planned, double measured) const {
    const double apart = std::abs(measured - planned);
    return apart > check_.tolerance * planned && apart > check_.tolerance * check_.planned_period_s;
  }

  void compare_compute(std::size_t k) {
    const MeasuredStage& stage = stages_[k];
    const double planned = stage.planned.compute_s;
    if (!differs(planned, stage.compute_s())) return;
    add({PlanFault::kCompute, k, planned, stage.compute_s(),
         format("{} computes layers {} to {} in {}, planned were {}", listed(stage.hosts),
                stage.first_layer, stage.last_layer, ms(stage.compute_s()), ms(planned)),
         "measure the model there again with 'harmonics profile', or take over what this run "
         "measured with 'harmonics profile --from-run', and plan again"});
  }

  void find_contention(std::size_t k) {
    const MeasuredStage& stage = stages_[k];
    if (!differs(0, stage.for_core_s)) return;
    std::vector<std::string> others;
    for (const MeasuredStage& other : stages_) {
      if (&other != &stage && !other.machine.empty() && other.machine == stage.machine) {
        others.push_back(joined(other.hosts, ", "));
      }
    }
    add({PlanFault::kContention, k, 0, stage.for_core_s,
         format("{} waits {} of each batch for a core{}", listed(stage.hosts), ms(stage.for_core_s),
                others.empty()
                    ? ", which other programs had"
                    : format(": {} compute{} on the {} cores of the same machine", listed(others),
                             others.size() == 1 ? "s" : "", stage.cores)),
         others.empty() ? "end the other programs, or plan without this host (--exclude)"
                        : "write the machine and its hosts under 'machines:' of the links file "
                          "('harmonics profile --from-run' does), and plan again"});
  }

  void compare_link(std::size_t k) {
    const MeasuredStage& stage = stages_[k];
    if (stage.links.empty()) return;
    const double planned = stage.planned.transfer_s - stage.planned.latency_s;
    const double measured = stage.transfer_s();
    if (!differs(planned, measured)) return;
    const MeasuredStage& next = stages_[stage.links.front().to];
    add({PlanFault::kLink, k, planned, measured,
         format(
             "{:.2f} MB a batch from {} to {} take {}, planned were {}: the link does {:.1f} Mbps",
             stage.bytes_sent / 1e6, listed(stage.hosts), listed(next.hosts), ms(measured),
             ms(planned), stage.links.front().bytes_per_s / kBytesPerMegabit),
         "'harmonics profile --from-run' writes the link into a links file; plan again with "
         "--links-file"});
  }

  // The last stage waits although nothing was busy for that long.
  void find_waiting() {
    double longest = 0;
    double latency = 0;
    for (const MeasuredStage& stage : stages_) {
      longest = std::max({longest, stage.busy_s, stage.transfer_s()});
      for (const MeasuredLink& link : stage.links) latency = std::max(latency, link.latency_s);
    }
    const double measured = check_.measured_period_s;
    if (measured <= longest * (1 + check_.tolerance) || !differs(longest, measured)) return;
    add({PlanFault::kInFlight, stages_.size() - 1, check_.planned_period_s, measured,
         format("a batch comes out every {}, and no stage or link is busy for longer than {} (a "
                "link's latency is {})",
                ms(measured), ms(longest), ms(latency)),
         "let more batches be under way with --in-flight, or write the links' latency_ms into the "
         "links file, so that the plan says how many"});
  }

  void add(RunFinding finding) { check_.findings.push_back(std::move(finding)); }

  RunCheck& check_;
  const std::vector<MeasuredStage>& stages_;
};

}  // namespace

std::string_view fault_name(PlanFault fault) {
  return kFaultNames.at(static_cast<std::size_t>(fault));
}

bool RunCheck::holds() const { return std::abs(error()) <= tolerance; }

RunCheck check_run(MeasuredRun run, double tolerance) {
  RunCheck check;
  check.tolerance = tolerance;
  check.measured_period_s = run.stages.back().period_s;
  for (const MeasuredStage& stage : run.stages) {
    check.planned_period_s = std::max(check.planned_period_s, stage.planned.period_s);
  }
  if (!(check.planned_period_s > 0)) {
    fail(ErrorCode::kInvalidArgument, "the plan of this run has a period of 0: nothing to compare");
  }
  check.run = std::move(run);
  RunComparison(check).run();
  return check;
}

namespace {

Json measured_json(const MeasuredStage& stage) {
  Json hosts = Json::array();
  for (const std::string& host : stage.hosts) hosts.push(host);
  Json json;
  json.set("part", stage.part).set("hosts", std::move(hosts));
  json.set("planned_period_s", stage.planned.period_s).set("period_s", stage.period_s);
  json.set("planned_compute_s", stage.planned.compute_s).set("compute_s", stage.compute_s());
  json.set("for_core_s", stage.for_core_s);
  json.set("planned_transfer_s", stage.planned.transfer_s - stage.planned.latency_s);
  json.set("transfer_s", stage.links.empty() ? Json() : Json(stage.transfer_s()));
  json.set("planned_latency_s", stage.planned.latency_s);
  json.set("latency_s", stage.links.empty() ? Json() : Json(stage.links.front().latency_s));
  return json;
}

}  // namespace

Json check_to_json(const RunCheck& check) {
  Json stages = Json::array();
  for (const MeasuredStage& stage : check.run.stages) stages.push(measured_json(stage));
  Json findings = Json::array();
  for (const RunFinding& one : check.findings) {
    findings.push(Json()
                      .set("fault", fault_name(one.fault))
                      .set("stage", static_cast<std::int64_t>(one.stage))
                      .set("planned_s", one.planned_s)
                      .set("measured_s", one.measured_s)
                      .set("what", one.what)
                      .set("advice", one.advice));
  }
  Json json;
  json.set("model", check.run.model).set("batch_size", check.run.batch_size);
  json.set("planned_period_s", check.planned_period_s);
  json.set("measured_period_s", check.measured_period_s);
  json.set("error", check.error()).set("tolerance", check.tolerance).set("holds", check.holds());
  return json.set("stages", std::move(stages)).set("findings", std::move(findings));
}

}  // namespace harmonics::inline in_plan
