#include "artifacts.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/listed.h>

#include "run_record.h"

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;

/// Reasons that one end tells; the rest is a count.
constexpr std::size_t kMaxReasons = 4;

/// Names in an attempt's folder that are not the task's own.
bool is_record(const std::string& name) {
  for (const char* record : {"run", "state", "stop", "progress", kArtifactsFolder}) {
    if (name == record) return true;
  }
  for (const char* stream : {"out.", "err.", "metrics."}) {
    const std::string_view prefix(stream);
    if (name.starts_with(prefix) && name.size() > prefix.size() &&
        name.find_first_not_of("0123456789", prefix.size()) == name.npos) {
      return true;
    }
  }
  return false;
}

/// Names travel as text.
bool is_utf8(std::string_view text) {
  std::size_t more = 0;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool continues = (byte & 0xc0) == 0x80;
    if (continues != (more > 0)) return false;
    if (continues) {
      --more;
    } else if (byte >= 0x80) {
      if (byte < 0xc2 || byte > 0xf4) return false;
      more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
    }
  }
  return more == 0;
}

/// The parts of a relative path without "..".
std::optional<std::vector<std::string>> parts_of(const std::string& text) {
  const fs::path path(text);
  if (text.empty() || path.is_absolute()) return std::nullopt;
  std::vector<std::string> parts;
  for (const fs::path& part : path) {
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") parts.push_back(part.string());
  }
  if (parts.empty()) return std::nullopt;
  return parts;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// So many bytes from one open file to another; fewer if there are fewer.
bool copy_bytes(int from, int to, std::uint64_t left) {
  std::array<char, 64 << 10> chunk;
  while (left > 0) {
    const ssize_t got = ::read(from, chunk.data(), std::min<std::uint64_t>(left, chunk.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return true;
    if (!write_all(to, {chunk.data(), static_cast<std::size_t>(got)})) return false;
    left -= static_cast<std::uint64_t>(got);
  }
  return true;
}

class Gathering {
 public:
  Gathering(const ArtifactWish& wish, fs::path from, fs::path folder, const TaskCredentials* user)
      : wish_(wish), from_(std::move(from)), folder_(std::move(folder)), user_(user) {
    std::error_code error;
    own_folder_ = fs::equivalent(from_, folder_, error);
    const fs::path below = from_.lexically_relative(folder_);
    inside_ = own_folder_ || (!below.empty() && *below.begin() != "..");
  }

  std::string run() {
    const AsUser rights(user_);
    if (!rights.good()) return "artifacts that were not kept: the worker cannot read as its user";
    for (const std::string& pattern : wish_.patterns) {
      const auto parts = parts_of(pattern);
      matched_ = false;
      if (parts) match({}, *parts, 0);
      if (!matched_) complain("nothing matches '" + pattern + "'");
    }
    return complaint();
  }

 private:
  void match(const fs::path& base, const std::vector<std::string>& parts, std::size_t at) {
    if (at == parts.size()) {
      matched_ = true;
      take(base);
      return;
    }
    std::error_code error;
    for (const std::string& name : names_in(from_ / base)) {
      if (base.empty() && own_folder_ && is_record(name)) continue;
      if (::fnmatch(parts[at].c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
      const bool folder = fs::is_directory(fs::symlink_status(from_ / base / name, error));
      if (at + 1 == parts.size() || folder) match(base / name, parts, at + 1);
    }
  }

  void take(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(from_ / path, error);
    if (fs::is_directory(status)) {
      for (const std::string& name : names_in(from_ / path)) take(path / name);
    } else if (!fs::is_regular_file(status)) {
      complain("'" + path.string() + "' is no regular file");
    } else if (!is_utf8(path.string())) {
      complain("a file whose name is no UTF-8");
    } else if (taken_.insert(path.string()).second) {
      keep(path);
    }
  }

  bool has_room(const fs::path& path, std::uint64_t bytes) {
    if (files_ < wish_.max_files && bytes <= wish_.max_bytes - bytes_) return true;
    complain("'" + path.string() + "' is past the limit of " + std::to_string(wish_.max_bytes) +
             " bytes or " + std::to_string(wish_.max_files) + " files");
    return false;
  }

  /// What is opened with the user's rights is what is copied: nothing is looked up twice.
  void keep_of_user(const fs::path& path) {
    const Descriptor from(
        ::open((from_ / path).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (!from || ::fstat(from.get(), &status) != 0) {
      complain("'" + path.string() + "': " + std::generic_category().message(errno));
    } else if (!S_ISREG(status.st_mode)) {
      complain("'" + path.string() + "' is no regular file");
    } else if (has_room(path, static_cast<std::uint64_t>(status.st_size))) {
      copy_of_user(path, from.get(), static_cast<std::uint64_t>(status.st_size));
    }
  }

  void copy_of_user(const fs::path& path, int from, std::uint64_t bytes) {
    const TaskCredentials self{::geteuid(), ::getegid(), {}};
    const AsUser rights(&self);
    const fs::path place = folder_ / kArtifactsFolder / path;
    std::error_code error;
    fs::create_directories(place.parent_path(), error);
    const Descriptor to(
        error ? -1
              : ::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!to || !copy_bytes(from, to.get(), bytes)) {
      const int reason = error ? error.value() : errno;
      if (to) ::unlink(place.c_str());
      complain("'" + path.string() + "': " + std::generic_category().message(reason));
      return;
    }
    ++files_;
    bytes_ += bytes;
  }

  void keep(const fs::path& path) {
    if (user_ != nullptr) return keep_of_user(path);
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(from_ / path, error);
    if (!error && !has_room(path, bytes)) return;
    const fs::path to = folder_ / kArtifactsFolder / path;
    if (!error) fs::create_directories(to.parent_path(), error);
    if (!error && inside_) fs::rename(from_ / path, to, error);
    if (!error && !inside_) fs::copy_file(from_ / path, to, error);
    if (error) {
      complain("'" + path.string() + "': " + error.message());
      return;
    }
    ++files_;
    bytes_ += bytes;
  }

  void complain(std::string reason) {
    ++complaints_;
    if (reasons_.size() < kMaxReasons) reasons_.push_back(std::move(reason));
  }
  std::string complaint() const {
    if (complaints_ == 0) return {};
    std::string text = "artifacts that were not kept: " + joined(reasons_);
    if (complaints_ > reasons_.size()) {
      text += " and " + std::to_string(complaints_ - reasons_.size()) + " more";
    }
    return text;
  }

  const ArtifactWish& wish_;
  const fs::path from_;
  const fs::path folder_;
  const TaskCredentials* const user_;
  bool own_folder_ = false;  ///< It runs among the records.
  bool inside_ = false;      ///< What it leaves goes with the attempt's folder.
  bool matched_ = false;
  std::set<std::string> taken_;  ///< By pattern or another; at most what the folder holds.
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::size_t complaints_ = 0;
  std::vector<std::string> reasons_;
};

}  // namespace

std::string keep_artifacts(const ArtifactWish& wish, const std::string& from,
                           const std::string& folder, const TaskCredentials* user) {
  try {
    return Gathering(wish, from, folder, user).run();
  } catch (const std::exception& error) {  // a folder that goes away while it is read
    return std::string("artifacts that were not kept: ") + error.what();
  }
}

std::vector<Artifact> list_artifacts(const std::string& folder) {
  std::vector<Artifact> found;
  const fs::path root = fs::path(folder) / kArtifactsFolder;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(root, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (!entry->is_regular_file(gone)) continue;
    const std::uint64_t bytes = entry->file_size(gone);
    if (!gone) found.push_back({entry->path().lexically_relative(root).string(), bytes});
  }
  std::ranges::sort(found, {}, &Artifact::path);
  return found;
}

std::optional<std::string> find_artifact(const std::string& folder, const std::string& path) {
  const auto parts = parts_of(path);
  if (!parts) return std::nullopt;
  fs::path place = fs::path(folder) / kArtifactsFolder;
  std::error_code error;
  for (const std::string& part : *parts) {
    // Nothing in there is a link; one that was put there is not followed.
    if (!fs::is_directory(fs::symlink_status(place, error))) return std::nullopt;
    place /= part;
  }
  if (!fs::is_regular_file(fs::symlink_status(place, error))) return std::nullopt;
  return place.string();
}

}  // namespace harmonics::inline in_worker
