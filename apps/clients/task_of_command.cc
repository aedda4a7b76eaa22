#include <harmonics/clients/task_of_command.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/clients/train_params.h>
#include <harmonics/cluster/task_files.h>
#include <harmonics/cluster/task_params.h>

#include "submit_pipeline.h"
#include "task_needs.h"
#include "upload.h"

namespace harmonics::inline in_clients {
namespace {

/// Beside files that go with the task it is a folder among them.
std::string working_dir_of(const std::string& wish, bool with_files) {
  if (!with_files) return std::filesystem::absolute(wish).string();
  std::filesystem::path place = std::filesystem::path(wish).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();
  return place == "." ? "" : place.string();
}

/// A file of ours that stands where the program should: the flag for it was left out.
void check_program(const SubmitCommand& command) {
  if (command.command.empty()) return;
  const std::filesystem::path program = command.command.front();
  const std::string ending = program.extension().string();
  const char* flag = ending == ".json" ? "--config" : ending == ".harp" ? "--pipeline" : nullptr;
  if (flag == nullptr || ::access(program.c_str(), X_OK) == 0) return;
  fail(ErrorCode::kInvalidArgument, "'{}' is no program: did you mean {} {}?", program.string(),
       flag, program.string());
}

/// 'harmonics serve' as it is found on the worker, on a free port of its loopback unless told
/// otherwise.
std::vector<std::string> serving_words(const SubmitCommand& command) {
  std::vector<std::string> words = {"harmonics", "serve",
                                    std::filesystem::absolute(command.serve).string()};
  words.insert(words.end(), command.command.begin(), command.command.end());
  if (std::ranges::find(words, "--listen") == words.end()) {
    words.insert(words.end(), {"--listen", "127.0.0.1:0"});
  }
  return words;
}

}  // namespace

TaskSpec task_of(const SubmitCommand& command, const std::vector<TaskFile>& files) {
  check_program(command);
  TaskSpec spec;
  bool cpus_said = sets(command, "cpus");
  if (!command.config.empty()) {
    const std::string text = read_text_file(command.config, kMaxTaskJsonBytes);
    spec = parse_task(text, command.config.string());
    cpus_said |= Json::parse(text, command.config.string()).find("cpus") != nullptr;
  }
  if (!command.serve.empty()) {
    spec.required_gpus = 0;  // it computes on the CPU
    if (spec.name.empty()) spec.name = "serve " + command.serve.stem().string();
  }
  for (const TaskFlag& one : command.fields) set_task_field(spec, one.key, one.value, one.flag);
  if (spec.name.empty() && !command.command.empty()) {
    spec.name = std::filesystem::path(command.command.front()).filename().string();
  }
  for (const std::int64_t id : command.after) {
    spec.depends_on.push_back(TaskId{static_cast<std::uint64_t>(id)});
  }
  for (const auto& [key, value] : command.params) put(spec.params, key, value);
  for (const auto& file : command.env_files) {
    for (const auto& [key, value] : read_env_file(file)) put(spec.env, key, value);
  }
  for (const auto& [key, value] : command.env) put(spec.env, key, value);
  add_needs(command, spec);
  if (!command.command.empty()) spec.command = command.command;
  if (!command.serve.empty()) spec.command = serving_words(command);
  for (const std::string& pattern : command.artifacts) spec.artifacts.push_back(pattern);
  if (!command.upload.empty()) spec.files = collect_files(command.upload);
  if (!files.empty()) {
    std::vector<TaskFile> all(spec.files.all().begin(), spec.files.all().end());
    all.insert(all.end(), files.begin(), files.end());
    spec.files = std::move(all);
  }
  if (!command.working_dir.empty()) {
    spec.working_dir = working_dir_of(command.working_dir, !spec.files.empty());
  }
  complete_pipeline(command, spec);
  if (!cpus_said) spec.cpus = default_cpus(spec);
  check_task(spec);
  check_artifacts(spec);
  check_params(spec);
  check_files(spec);
  if (spec.command.empty() && !spec.pipeline) {
    TaskParams params;
    for (const auto& [key, value] : spec.params) params[trainer_key(key)] = value;
    check_trainer_params(params);
  }
  return spec;
}

}  // namespace harmonics::inline in_clients
