#include <harmonics/base/file.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_base {
namespace {

constexpr std::string_view kTemporaryMark = ".part-";

// Temporary names are "<target>.part-<process id>"; one whose process is gone is litter.
void remove_litter(const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<std::filesystem::path> entries;
  try {
    entries = list_folder(folder);
  } catch (const Error&) {
    return;  // a folder may be written to without being readable
  }
  for (const std::filesystem::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto owner = number_from<pid_t>(name.substr(prefix.size()));
    if (!owner || *owner <= 0) continue;
    if (::kill(*owner, 0) != 0 && errno == ESRCH) ::unlink(entry.c_str());
  }
}

void write_all(int descriptor, ByteSpan bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, format("cannot write '{}'", path.string()));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Names of what this process has open already: opened anew, they are written to, not replaced.
bool names_an_open_stream(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/");
}

// Where a link leads, so that what is renamed there does not take the link's place.
std::filesystem::path without_links(const std::filesystem::path& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? std::filesystem::path(real.get()) : path;
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::size_t limit_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_errno(errno, format("cannot read '{}'", path.string()));
  std::string text;
  char chunk[65536];
  while (true) {
    const ssize_t got = ::read(file.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, format("cannot read '{}'", path.string()));
    if (got == 0) return text;
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > limit_bytes) {
      fail(ErrorCode::kResourceExhausted, "'{}' is larger than the limit of {} bytes",
           path.string(), limit_bytes);
    }
  }
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open && errno == ENOENT) return {};
  if (!open) fail_errno(errno, format("cannot read the folder '{}'", folder.string()));
  std::vector<std::filesystem::path> found;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") found.push_back(folder / name);
  }
  if (errno != 0) fail_errno(errno, format("cannot read the folder '{}'", folder.string()));
  std::sort(found.begin(), found.end());
  return found;
}

void remove_tree(const std::filesystem::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return;
    fail_errno(errno, format("cannot remove '{}'", path.string()));
  }
  const bool folder = S_ISDIR(found.st_mode);
  if (folder) {
    for (const std::filesystem::path& entry : list_folder(path)) remove_tree(entry);
  }
  if ((folder ? ::rmdir(path.c_str()) : ::unlink(path.c_str())) != 0 && errno != ENOENT) {
    fail_errno(errno, format("cannot remove '{}'", path.string()));
  }
}

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)) {
  struct stat found {};
  const bool exists = ::stat(target_.c_str(), &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) {
    fail_errno(EISDIR, format("cannot write '{}'", target_.string()));
  }
  if (exists && (!S_ISREG(found.st_mode) || names_an_open_stream(target_.string()))) {
    descriptor_.reset(::open(target_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!descriptor_) fail_errno(errno, format("cannot write '{}'", target_.string()));
    return;
  }
  struct stat named {};
  const bool link = ::lstat(target_.c_str(), &named) == 0 && S_ISLNK(named.st_mode);
  if (exists && link) target_ = without_links(target_);
  const std::string prefix = target_.filename().string() + std::string(kTemporaryMark);
  const std::filesystem::path folder = folder_of(target_);
  remove_litter(folder, prefix);
  temporary_ = folder / (prefix + std::to_string(::getpid()));
  descriptor_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (descriptor_) return;
  const int reason = errno;
  const bool homeless = reason == ENOENT && ::stat(folder.c_str(), &found) != 0;
  fail_errno(reason,
             format("cannot write '{}'{}", target_.string(),
                    homeless ? format(" (make the folder '{}' first)", folder.string()) : ""));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(ByteSpan bytes) { write_all(descriptor_.get(), bytes, target_); }

void AtomicFile::write_at(std::size_t offset, ByteSpan bytes) {
  if (::lseek(descriptor_.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    fail_errno(errno, format("cannot write '{}'", target_.string()));
  }
  write_all(descriptor_.get(), bytes, target_);
  ::lseek(descriptor_.get(), 0, SEEK_END);
}

void AtomicFile::commit() {
  if (temporary_.empty()) {
    descriptor_.reset();
    return;
  }
  if (::fsync(descriptor_.get()) != 0) {
    fail_errno(errno, format("cannot write '{}'", target_.string()));
  }
  descriptor_.reset();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    fail_errno(reason, format("cannot write '{}'", target_.string()));
  }
  const Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(bytes_of(text));
  file.commit();
}

}  // namespace harmonics::inline in_base
