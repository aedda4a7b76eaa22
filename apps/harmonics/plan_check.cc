// harmonics plan --check: a plan beside what its run measured.
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/plan/run_check.h>

#include "run_texts.h"
#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

std::string in_ms(double seconds) { return format("{:.3f}", 1e3 * seconds); }

Table stage_table(const RunCheck& check) {
  Table table{{{"host"},
               {"layers", Align::kRight},
               {"compute ms", Align::kRight},
               {"planned", Align::kRight},
               {"for a core", Align::kRight},
               {"link ms", Align::kRight},
               {"planned", Align::kRight},
               {"latency ms", Align::kRight},
               {"planned", Align::kRight},
               {"period ms", Align::kRight},
               {"planned", Align::kRight}},
              {}};
  for (const MeasuredStage& stage : check.run.stages) {
    const bool has_link = !stage.links.empty();
    const StageCosts& planned = stage.planned;
    table.rows.push_back(
        {joined(stage.hosts, " "), format("{}-{}", stage.first_layer, stage.last_layer),
         in_ms(stage.compute_s()), in_ms(planned.compute_s), in_ms(stage.for_core_s),
         has_link ? in_ms(stage.transfer_s()) : "-", in_ms(planned.transfer_s - planned.latency_s),
         has_link ? in_ms(stage.links.front().latency_s) : "-", in_ms(planned.latency_s),
         in_ms(stage.period_s), in_ms(planned.period_s)});
  }
  return table;
}

std::string check_text(const RunCheck& check, bool colour) {
  std::string text = stage_table(check).text(colour) + "\n";
  text += bold(format("{}: {} ms per batch of {}, planned {} ms: {:+.1f} %, {} {:g} %",
                      check.run.model, in_ms(check.measured_period_s), check.run.batch_size,
                      in_ms(check.planned_period_s), 100 * check.error(),
                      check.holds() ? "within" : "more than", 100 * check.tolerance),
               colour) +
          "\n";
  for (const RunFinding& finding : check.findings) {
    text += format("  {}: {}\n    {}\n", fault_name(finding.fault), finding.what, finding.advice);
  }
  if (check.findings.empty()) {
    text += check.holds() ? "  compute, links and cores were as planned\n"
                          : "  no single stage or link explains it: measure over more batches\n";
  }
  return text;
}

}  // namespace

int plan_check(const PlanCommand& command) {
  const RunCheck check = check_run(read_measured_run(command.checks), command.tolerance);
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, check_text(check, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, check_to_json(check).dump(2) + "\n");
      break;
    case OutputStyle::kQuiet:
      write_text(TextStream::kOutput, format("{:.4f}\n", check.error()));
      break;
  }
  return check.holds() ? kExitDone : kExitOffPlan;
}

}  // namespace harmonics::inline in_front
