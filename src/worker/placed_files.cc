#include "placed_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include <harmonics/base/descriptor.h>

#include "supervisor/run_record.h"

namespace harmonics::inline in_worker {
namespace {

/// Adds those that it made.
bool make_folders_above(const std::string& root, std::string_view path,
                        std::vector<std::string>& made) {
  for (std::size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1)) {
    std::string folder = root + "/" + std::string(path.substr(0, at));
    if (::mkdir(folder.c_str(), S_IRWXU) == 0) {
      made.push_back(std::move(folder));
    } else if (errno != EEXIST) {
      return false;
    }
  }
  return true;
}

bool place_file(const std::string& place, const TaskFile& file, const TaskCredentials* owner) {
  const mode_t mode = S_IRUSR | S_IWUSR | (file.executable ? S_IXUSR : 0);
  // The folder is fresh: what is there already is no file of ours.
  const Descriptor made(
      ::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  return made && write_all(made.get(), file.data) &&
         (owner == nullptr || ::fchown(made.get(), owner->uid, owner->gid) == 0);
}

}  // namespace

bool place_files(const std::string& folder, std::span<const TaskFile> files,
                 const TaskCredentials* owner) {
  if (::mkdir(folder.c_str(), S_IRWXU) != 0) return false;
  std::vector<std::string> folders = {folder};
  for (const TaskFile& file : files) {
    if (!make_folders_above(folder, file.path, folders)) return false;
    if (!place_file(folder + "/" + file.path, file, owner)) return false;
  }
  if (owner == nullptr) return true;
  return std::all_of(folders.rbegin(), folders.rend(), [owner](const std::string& one) {
    return ::lchown(one.c_str(), owner->uid, owner->gid) == 0;
  });
}

}  // namespace harmonics::inline in_worker
