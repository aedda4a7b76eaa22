#include "run_checkpoint.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/schedule/checkpoint.h>

namespace harmonics::inline in_schedule {
namespace {

constexpr std::string_view kStepMark = ".step-";
constexpr std::string_view kExtension = ".safetensors";
constexpr std::size_t kMarkBytes = 8;

void remove_older(const std::filesystem::path& manifest, const Manifest& content) {
  std::set<std::string> kept;
  for (const StageFile& stage : content.latest.stages) kept.insert(stage.file);
  if (content.previous) {
    for (const StageFile& stage : content.previous->stages) kept.insert(stage.file);
  }
  const std::string prefix = manifest.filename().string() + std::string(kStepMark);
  for (const std::filesystem::path& path : list_folder(folder_of(manifest))) {
    const std::string name = path.filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kExtension) || kept.contains(name)) continue;
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) log_warn("schedule", "cannot remove '{}': {}", path.string(), error.message());
  }
}

}  // namespace

std::string stage_file_name(const std::filesystem::path& manifest, const StageFileName& name) {
  return format("{}{}{}-{}-{}.{}-of-{}{}", manifest.filename().string(), kStepMark, name.step,
                name.mark, name.number, name.index + 1, name.count, kExtension);
}

std::string random_mark() { return random_hex(kMarkBytes); }

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

bool is_first_in_folder(const std::filesystem::path& manifest, const SavedStep& saved,
                        std::size_t index) {
  for (std::size_t i = 0; i < index; ++i) {
    if (std::filesystem::exists(folder_of(manifest) / saved.stages[i].file)) return false;
  }
  return true;
}

void complete_checkpoint(const std::filesystem::path& manifest, const Manifest& content) {
  write_manifest(manifest, content);
  remove_older(manifest, content);
}

std::vector<StageFile> files_to_read(const SavedStep& saved, const std::string& part,
                                     std::size_t count) {
  const auto own = std::ranges::find(saved.stages, part, &StageFile::stage);
  if (own != saved.stages.end() && saved.stages.size() == count) return {*own};
  return saved.stages;
}

std::vector<SavedStep> usable_steps(const std::filesystem::path& manifest, const std::string& part,
                                    std::size_t count) {
  if (!std::filesystem::exists(manifest)) return {SavedStep{}};
  if (!is_manifest(manifest)) {
    return {SavedStep{checkpoint_steps(manifest), {{"", manifest.filename().string(), ""}}}};
  }
  const Manifest content = read_manifest(manifest);
  std::vector<SavedStep> steps = {content.latest};
  if (content.previous) steps.push_back(*content.previous);
  bool lost = false;
  std::erase_if(steps, [&](const SavedStep& saved) {
    for (const StageFile& stage : files_to_read(saved, part, count)) {
      if (std::filesystem::exists(folder_of(manifest) / stage.file)) continue;
      log_warn("schedule", "the checkpoint '{}' has lost '{}' of step {}", manifest.string(),
               stage.file, saved.step);
      lost = true;
      return true;
    }
    return false;
  });
  // Who has lost what was saved does not begin anew without being asked to.
  if (lost) std::erase_if(steps, [](const SavedStep& saved) { return saved.stages.empty(); });
  return steps;
}

std::string saved_step_id(const SavedStep& saved) {
  if (saved.stages.empty()) return "the beginning";
  const std::string& file = saved.stages.front().file;
  const std::size_t mark = file.rfind(kStepMark);
  if (mark == std::string::npos) return format("step {}", saved.step);
  const std::size_t start = mark + kStepMark.size();
  return format("step {}", file.substr(start, file.find('.', start) - start));
}

}  // namespace harmonics::inline in_schedule
