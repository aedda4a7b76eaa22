// harmonics import: a model of others as a .harp file with its weights.
#include <harmonics/base/listed.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/models/import_model.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

// "copying weights [####....] 1.2 G of 4.4 G", drawn over itself on a terminal, once per percent.
class CopyProgress {
 public:
  explicit CopyProgress(bool shown) : shown_(shown) {}

  void operator()(std::uint64_t done, std::uint64_t all) {
    if (!shown_ || all == 0) return;
    const auto percent =
        static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(all));
    if (percent == last_) return;
    last_ = percent;
    write_text(TextStream::kError,
               format("\rcopying weights {} {}B of {}B",
                      progress_bar(static_cast<double>(done) / static_cast<double>(all), 30,
                                   wants_colour(TextStream::kError)),
                      in_short(static_cast<double>(done)), in_short(static_cast<double>(all))));
    if (done == all) write_text(TextStream::kError, "\n");
  }

 private:
  bool shown_;
  int last_ = -1;
};

Json report_json(const ImportedModel& model, const WrittenModel& written) {
  Json left_out = Json::array();
  for (const std::string& each : model.left_out) left_out.push(each);
  Json fresh = Json::array();
  for (const std::string& each : model.fresh) fresh.push(each);
  Json json;
  json.set("fresh", std::move(fresh));
  json.set("architecture", model.architecture).set("file", written.harp.string());
  json.set("weights", written.weights.string()).set("bytes", written.weight_bytes);
  json.set("layers", static_cast<std::int64_t>(model.graph.layers().size()));
  json.set("tensors", static_cast<std::int64_t>(model.weights.entries().size()));
  json.set("parameters", model.graph.parameter_count()).set("left_out", std::move(left_out));
  return json;
}

std::string report_text(const ImportedModel& model, const WrittenModel& written) {
  std::string text =
      format("imported {}: {} layers, {} parameters in {} tensors\n", model.architecture,
             model.graph.layers().size(), with_thousands(model.graph.parameter_count()),
             model.weights.entries().size());
  text += format("wrote {} and {} ({}B)\n", written.harp.string(), written.weights.string(),
                 in_short(static_cast<double>(written.weight_bytes)));
  for (const std::filesystem::path& file : written.beside) {
    text += format("copied {}, which makes its inputs\n", file.string());
  }
  if (!model.fresh.empty()) {
    text += format("added a head, which has to be trained: {}\n", listed(model.fresh));
  }
  if (!model.left_out.empty()) {
    text += format("left out, as it matters in training only: {}\n", listed(model.left_out));
  }
  return text;
}

}  // namespace

int import_source(const ImportCommand& command) {
  const std::string name = command.out.stem().string();
  const ImportedModel model = import_model(
      command.source, {is_user_name(name) ? name : std::string(), command.length, command.classes,
                       command.shapes, command.values, command.batch});
  CopyProgress progress(command.output == OutputStyle::kTable && is_terminal(TextStream::kError));
  const WrittenModel written =
      write_model(model, command.out, command.links ? WeightsMode::kLink : WeightsMode::kCopy,
                  std::ref(progress));
  switch (command.output) {
    case OutputStyle::kTable: write_text(TextStream::kOutput, report_text(model, written)); break;
    case OutputStyle::kJson: write_json(report_json(model, written)); break;
    case OutputStyle::kQuiet: break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
