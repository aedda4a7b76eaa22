// harmonics profile --from-run: the planner's files, corrected by what a run measured.
#include <harmonics/base/file.h>
#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/terminal.h>
#include <harmonics/plan/run_lessons.h>

#include "run_texts.h"
#include "subcommands.h"

namespace harmonics::inline in_front {

int profile_from_run(const ProfileCommand& command) {
  const MeasuredRun run = read_measured_run(command.runs);
  const bool has_links = std::filesystem::exists(command.links_file);
  PlanInputs inputs = read_plan_inputs({command.models_file, command.types_file, command.hosts_file,
                                        has_links ? command.links_file : std::filesystem::path()});
  const LinkTable links_before = inputs.links;
  const DeviceTypeTable types_before = inputs.types;
  const std::vector<std::string> lines = learn_from_run(inputs, run);
  Json files = Json::array();
  if (inputs.types != types_before) {
    write_text_file(command.types_file, device_types_to_yaml(inputs.types));
    files.push(command.types_file.string());
  }
  if (inputs.links != links_before) {
    write_text_file(command.links_file, links_to_yaml(inputs.links));
    files.push(command.links_file.string());
  }
  if (command.output == OutputStyle::kQuiet) return kExitDone;
  Json changes = Json::array();
  std::string text;
  for (const std::string& line : lines) {
    changes.push(line);
    text += line + "\n";
  }
  if (files.as_array().empty()) text += "the files say already what this run measured\n";
  for (const Json& file : files.as_array()) text += format("  -> {}\n", file.as_string());
  if (command.output == OutputStyle::kJson) {
    text = Json().set("changes", std::move(changes)).set("files", std::move(files)).dump() + "\n";
  }
  write_text(TextStream::kOutput, text);
  return kExitDone;
}

}  // namespace harmonics::inline in_front
