#include <harmonics/cluster/task_files.h>

#include <set>
#include <string_view>

#include <harmonics/base/error.h>

namespace harmonics::inline in_cluster {
namespace {

constexpr std::size_t kMaxPathBytes = 1024;
constexpr std::size_t kMaxNameBytes = 255;

/// Names with slashes between them: no "..", no ".", nothing empty, nothing to begin at.
bool is_plain_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes || path.find('\0') != path.npos) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxNameBytes) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

std::uint64_t file_bytes(const TaskSpec& spec) {
  std::uint64_t bytes = 0;
  for (const TaskFile& file : spec.files.all()) bytes += file.path.size() + file.data.size();
  return bytes;
}

void check_files(const TaskSpec& spec) {
  if (spec.files.empty()) return;
  if (spec.pipeline) {
    fail(ErrorCode::kInvalidArgument, "task: files: the stages of a pipeline take none");
  }
  if (!spec.working_dir.empty() && !is_plain_path(spec.working_dir)) {
    fail(ErrorCode::kInvalidArgument,
         "task: its files lie in a folder of its own, so its working directory must be a relative "
         "path below that, not '{}'",
         spec.working_dir);
  }
  std::set<std::string_view> paths;
  for (const TaskFile& file : spec.files.all()) {
    if (!is_plain_path(file.path)) {
      fail(ErrorCode::kInvalidArgument,
           "task: files: '{}' is no relative path without '..', '.' and '//' of at most {} bytes",
           file.path, kMaxPathBytes);
    }
    if (paths.insert(file.path).second) continue;
    fail(ErrorCode::kInvalidArgument, "task: files: '{}' is there twice", file.path);
  }
  for (const std::string_view path : paths) {
    for (std::size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1)) {
      if (!paths.contains(path.substr(0, at))) continue;
      fail(ErrorCode::kInvalidArgument, "task: files: '{}' is a file and a folder",
           path.substr(0, at));
    }
  }
}

}  // namespace harmonics::inline in_cluster
