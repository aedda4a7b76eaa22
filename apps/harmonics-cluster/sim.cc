// harmonics sim: a trace played to the scheduler.
#include <harmonics/base/error.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/programs/programs.h>
#include <harmonics/replay/replay.h>
#include <harmonics/server/policy_process.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

std::vector<WorkerSpec> nodes_of(const std::string& text) {
  const bool counted = text.find_first_not_of("0123456789x") == text.npos;
  return counted ? equal_nodes(text) : read_nodes(text);
}

void print_report(const ReplayReport& report) {
  Table table{{{"jobs"}, {"count", Align::kRight}}, {}};
  for (const char* what : {"completion", "waiting"}) {
    for (const char* which : {"mean", "p50", "p90", "p99", "max"}) {
      table.columns.push_back({format("{} h {}", what, which), Align::kRight});
    }
  }
  for (const ReplayClass& one : report.classes) {
    std::vector<std::string> row{one.name, with_thousands(static_cast<std::int64_t>(one.jobs))};
    for (const ReplayClass::Spread& s : {one.completion_h, one.waiting_h}) {
      for (const double hours : {s.mean, s.p50, s.p90, s.p99, s.max}) {
        row.push_back(format("{:.2f}", hours));
      }
    }
    table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) {
    write_text(TextStream::kOutput, table.text(wants_colour(TextStream::kOutput)));
  }
  write_text(TextStream::kOutput,
             format("{} jobs on {} GPUs, {} refused; {} starts, {} preemptions\n"
                    "GPUs held {} on average, {} at the end; free while jobs waited {}\n",
                    report.jobs, report.gpus, report.refused, report.starts, report.preemptions,
                    as_percent(report.utilisation), as_percent(report.allocated),
                    as_percent(report.fragmentation)));
}

}  // namespace

int sim(const SimCommand& command) {
  const auto policy = open_policy(command.policy, path_of(kClusterProgram));
  ReplayOptions options;
  options.nodes = nodes_of(command.nodes);
  options.limits = {command.limits > 0, command.limits};
  options.restart_cost = Nanoseconds(static_cast<std::int64_t>(command.restart_cost_s * 1e9));
  options.from_start = command.from_start;
  options.one_user = command.one_user;
  options.load = command.load;
  options.seed = static_cast<std::uint64_t>(command.seed);
  const ReplayReport report = replay(read_trace(command.trace), options, *policy);
  if (command.output == OutputStyle::kJson) {
    write_json(to_json(report), 2);
  } else if (command.output == OutputStyle::kTable) {
    print_report(report);
  } else if (!report.classes.empty()) {
    write_text(TextStream::kOutput, format("{:.3f}\n", report.classes.front().completion_h.mean));
  } else {
    write_text(TextStream::kOutput, format("{:.4f}\n", report.allocated));
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
