// The files of a coordinated checkpoint: all stages at one step (private to schedule).
//
// Every process writes a file of its own; once all of them have, one process of each folder renames
// the manifest into place and removes what it no longer names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/schedule/manifest.h>

namespace harmonics::inline in_schedule {

/// Which file of which checkpoint. `mark` is drawn anew for every fit, so that files of another one
/// are never taken for those of this; `number` counts the checkpoints of a fit.
struct StageFileName {
  std::int64_t step = 0;
  std::string mark;
  std::int64_t number = 0;
  std::size_t index = 0;
  std::size_t count = 1;
};
[[nodiscard]] std::string stage_file_name(const std::filesystem::path& manifest,
                                          const StageFileName& name);
/// Sixteen random hexadecimal digits.
[[nodiscard]] std::string random_mark();

/// The folder that a path lies in.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& path);

/// True when no process before number `index` has its file in the same folder.
[[nodiscard]] bool is_first_in_folder(const std::filesystem::path& manifest, const SavedStep& saved,
                                      std::size_t index);
/// Renames the manifest into place and removes files of older checkpoints under the same name.
void complete_checkpoint(const std::filesystem::path& manifest, const Manifest& content);

/// The files of a saved step that a part of that name, one of `count` processes, reads: its own
/// where the run was cut in the same way, else all.
[[nodiscard]] std::vector<StageFile> files_to_read(const SavedStep& saved, const std::string& part,
                                                   std::size_t count);
/// Saved steps that such a part can go on from, newest first: the files that it reads are there.
/// Where there is no checkpoint at all, the beginning. A file that is missing is told in a warning,
/// and the beginning is then not among them: nobody who lost what was saved begins anew unasked.
[[nodiscard]] std::vector<SavedStep> usable_steps(const std::filesystem::path& manifest,
                                                  const std::string& part, std::size_t count);

/// Tells a saved step from all others, the same in all processes.
[[nodiscard]] std::string saved_step_id(const SavedStep& saved);
}  // namespace harmonics::inline in_schedule
