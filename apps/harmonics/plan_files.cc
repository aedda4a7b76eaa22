#include "plan_files.h"

#include <unistd.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/units.h>

namespace harmonics::inline in_front {
namespace {

constexpr std::string_view kStagePrefix = "stage-";
constexpr std::string_view kStageSuffix = ".harp";

// A host's name as part of a file's name.
std::string file_word(const std::string& host) {
  std::string word = host;
  std::ranges::replace_if(
      word,
      [](char c) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '.' || c == '-';
        return !plain;
      },
      '_');
  return word;
}

std::string stage_name(std::size_t number, std::size_t count, const std::string& host) {
  const std::size_t digits = std::max<std::size_t>(2, std::to_string(count).size());
  return format("{}{:0>{}}-{}{}", kStagePrefix, number, digits, file_word(host), kStageSuffix);
}

void remove_earlier_stages(const std::filesystem::path& folder, const std::set<std::string>& kept) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kStagePrefix) && name.ends_with(kStageSuffix) && !kept.contains(name)) {
      std::filesystem::remove(entry.path());
    }
  }
}

// Whoever plans for the first time has none of the files, and is told where they come from.
void expect_file(const std::filesystem::path& file, const std::string& origin) {
  if (::access(file.c_str(), F_OK) == 0) return;
  fail(ErrorCode::kNotFound, "there is no file '{}': {}", file.string(), origin);
}

}  // namespace

void expect_plan_inputs(const PlanCommand& command) {
  const std::string measure =
      format("'harmonics profile {}' on a machine of each type writes it", command.graph.string());
  expect_file(command.models_file, measure);
  expect_file(command.types_file, measure);
  expect_file(command.hosts_file,
              "write the hosts of each device type there, a line like 'TYPE: [HOST, HOST]' each");
}

void check_planned_layers(const PlanInputs& inputs, const std::string& model,
                          const PlanCommand& command, const HarmonicGraph& graph) {
  const auto found = inputs.models.find(model);
  const std::size_t units = graph_units(graph).size();
  if (found == inputs.models.end()) {
    fail(ErrorCode::kNotFound,
         "model '{}' is not in '{}', which has {}: measure it with 'harmonics profile {}', or name "
         "another model with --model-name",
         model, command.models_file.string(), listed(std::views::keys(inputs.models)),
         command.graph.string());
  }
  if (found->second.layers() == units) return;
  fail(ErrorCode::kFailedPrecondition,
       "model '{}' was measured with {} layers, graph '{}' has {}: run 'harmonics profile' with "
       "this graph, or name another model with --model-name",
       model, found->second.layers(), graph.name(), units);
}

std::vector<std::string> write_plan_files(const std::filesystem::path& folder, const Plan& plan,
                                          const std::vector<HarmonicGraph>& parts) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) fail_errno(failed.value(), "cannot make the folder '" + folder.string() + "'");
  std::set<std::string> names;
  std::vector<std::string> files;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = stage_name(i + 1, parts.size(), plan.stages[i].hosts.front());
    write_text_file(folder / name, to_harp(parts[i]));
    names.insert(name);
    files.push_back((folder / name).string());
  }
  remove_earlier_stages(folder, names);
  write_text_file(folder / "plan.yml", plan_to_yaml(plan));
  files.push_back((folder / "plan.yml").string());
  return files;
}

}  // namespace harmonics::inline in_front
