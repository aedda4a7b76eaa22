#include "upload.h"

#include <filesystem>
#include <map>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

namespace harmonics::inline in_clients {
namespace {

namespace fs = std::filesystem;

class Collection {
 public:
  void add(const fs::path& place, const fs::path& name) {
    std::error_code error;
    if (fs::is_directory(place, error)) {
      add_folder(place, name);
    } else if (fs::is_regular_file(place, error)) {
      add_file(place, name.lexically_normal().string());
    } else {
      fail(ErrorCode::kNotFound, "--upload: '{}' is neither a file nor a folder", place.string());
    }
  }
  std::vector<TaskFile> take() { return std::move(files_); }

 private:
  void add_folder(const fs::path& place, const fs::path& name) {
    for (const fs::path& entry : list_folder(place)) {
      const std::string last = entry.filename().string();
      std::error_code error;
      const bool left_out = last.starts_with('.') || last == "__pycache__" ||
                            (fs::is_symlink(entry, error) && fs::is_directory(entry, error));
      if (!left_out) add(entry, name / last);
    }
  }

  void add_file(const fs::path& place, const std::string& path) {
    const auto [known, fresh] = places_.emplace(path, place);
    if (!fresh && known->second == place) return;
    if (!fresh) {
      fail(ErrorCode::kInvalidArgument, "--upload: '{}' and '{}' would both be '{}' to the task",
           known->second.string(), place.string(), path);
    }
    std::error_code error;
    const std::uintmax_t size = fs::file_size(place, error);
    bytes_ += path.size() + (error ? 0 : size);
    if (files_.size() == kMaxTaskFiles || bytes_ > kMaxTaskFileBytes) {
      fail(ErrorCode::kInvalidArgument,
           "--upload: with '{}' ({} bytes) it is more than {} files or {} KiB, which is what goes "
           "with a task; name fewer files, and put large ones where the workers can read them",
           place.string(), size, kMaxTaskFiles, kMaxTaskFileBytes >> 10);
    }
    const auto executes = fs::perms::owner_exec & fs::status(place, error).permissions();
    files_.push_back({path, read_text_file(place, kMaxTaskFileBytes), executes != fs::perms::none});
  }

  std::vector<TaskFile> files_;
  std::map<std::string, fs::path> places_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<TaskFile> collect_files(const std::vector<std::string>& names) {
  Collection collection;
  const fs::path here = fs::current_path();
  for (const std::string& name : names) {
    fs::path place = fs::absolute(name).lexically_normal();
    if (place.filename().empty()) place = place.parent_path();
    fs::path relative = place.lexically_relative(here);
    if (relative.empty() || *relative.begin() == "..") relative = place.filename();
    collection.add(place, relative == "." ? fs::path() : relative);
  }
  std::vector<TaskFile> files = collection.take();
  if (files.empty()) fail(ErrorCode::kInvalidArgument, "--upload: there is no file in there");
  return files;
}

}  // namespace harmonics::inline in_clients
