// harmonics trace: what the stages of a pipeline did when, as a table, a picture or for Perfetto.
#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>

#include "pass_trace.h"
#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

/// More slices than this make a picture that no viewer opens.
constexpr std::size_t kMaxDrawnPasses = 20'000;

struct StageSum {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  double forward_s = 0;
  double backward_s = 0;

  [[nodiscard]] double mean_ms(bool of_forward) const {
    const auto count = static_cast<double>(of_forward ? forward : backward);
    return count == 0 ? 0 : 1e3 * (of_forward ? forward_s : backward_s) / count;
  }
};

StageSum sum_of(const TracedStage& stage) {
  StageSum sum;
  for (const TracedPass& pass : stage.passes) {
    (pass.forward ? sum.forward : sum.backward) += 1;
    (pass.forward ? sum.forward_s : sum.backward_s) += pass.end_s - pass.begin_s;
  }
  return sum;
}

std::string as_json(const std::vector<TracedStage>& stages, double length_s) {
  Json rows = Json::array();
  for (const TracedStage& stage : stages) {
    const StageSum sum = sum_of(stage);
    Json row = Json::object();
    row.set("stage", stage.name).set("forward", sum.forward).set("backward", sum.backward);
    row.set("forward_s", sum.forward_s).set("backward_s", sum.backward_s);
    rows.push(row.set("busy", (sum.forward_s + sum.backward_s) / length_s));
  }
  return Json::object().set("seconds", length_s).set("stages", std::move(rows)).dump() + "\n";
}

std::string as_table(const std::vector<TracedStage>& stages, double length_s) {
  Table table{.columns = {{"stage"},
                          {"forward", Align::kRight},
                          {"ms each", Align::kRight},
                          {"backward", Align::kRight},
                          {"ms each", Align::kRight},
                          {"busy", Align::kRight}},
              .rows = {}};
  for (const TracedStage& stage : stages) {
    const StageSum sum = sum_of(stage);
    table.rows.push_back({stage.name, with_thousands(sum.forward),
                          format("{:.3f}", sum.mean_ms(true)), with_thousands(sum.backward),
                          format("{:.3f}", sum.mean_ms(false)),
                          as_percent((sum.forward_s + sum.backward_s) / length_s)});
  }
  return table.text(wants_colour(TextStream::kOutput)) + format("{:.3f} s in all\n", length_s);
}

std::string picture_of(const std::vector<TracedStage>& stages) {
  std::size_t passes = 0;
  for (const TracedStage& stage : stages) passes += stage.passes.size();
  if (passes > kMaxDrawnPasses) {
    fail(ErrorCode::kInvalidArgument,
         "{} passes are too many for a picture (at most {}): choose some steps with --steps "
         "100-103, "
         "or write a .json for Perfetto",
         passes, kMaxDrawnPasses);
  }
  return pass_trace_svg(stages);
}

}  // namespace

int trace(const TraceCommand& command) {
  std::vector<TracedStage> stages = read_pass_traces(command.files);
  if (command.last_step >= 0) {
    stages = steps_between(std::move(stages), command.first_step, command.last_step);
  }
  if (!command.out.empty()) {
    const bool svg = command.out.extension() == ".svg";
    write_text_file(command.out, svg ? picture_of(stages) : perfetto_json(stages));
  }
  const TraceSpan span = span_of(stages);
  const double length_s = std::max(1e-12, span.end_s - span.begin_s);
  if (command.output == OutputStyle::kJson) {
    write_text(TextStream::kOutput, as_json(stages, length_s));
  } else if (command.output == OutputStyle::kTable) {
    write_text(TextStream::kOutput, as_table(stages, length_s));
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
