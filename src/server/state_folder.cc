#include <harmonics/server/state_folder.h>

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/user_folders.h>

namespace harmonics::inline in_server {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kMaxTokenFile = 4096;

}  // namespace

fs::path default_state_folder() {
  if (const auto folder = user_state_folder()) return *folder;
  fail(ErrorCode::kFailedPrecondition,
       "neither XDG_STATE_HOME nor HOME is set: say where to keep the state with --state-dir");
}

void make_state_folder(const fs::path& folder) {
  fs::path so_far;
  for (const fs::path& part : fs::absolute(folder).lexically_normal()) {
    so_far /= part;
    std::error_code error;
    if (part.empty() || fs::is_directory(so_far, error)) continue;
    if (::mkdir(so_far.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
      fail_errno(errno, format("cannot make the state folder '{}'", folder.string()));
    }
  }
  if (!fs::is_directory(folder)) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no folder", folder.string());
  }
}

FolderLock::FolderLock(const fs::path& folder, const std::string& who) {
  const fs::path path = folder / (who + ".lock");
  descriptor_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!descriptor_) fail_errno(errno, format("cannot open '{}'", path.string()));
  if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    fail(ErrorCode::kFailedPrecondition,
         "another {} uses the state folder '{}': stop it, or choose another --state-dir", who,
         folder.string());
  }
}

std::string random_token() { return random_hex(kTokenBytes); }

std::string make_token_file(const fs::path& folder) {
  const fs::path path = folder / "token";
  if (!fs::exists(path)) {
    // Made unreadable to others first: at no moment does it lie open.
    const fs::path temporary = folder / "token~";
    const std::string line = random_token() + "\n";
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!file ||
        ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
        ::fsync(file.get()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
      fail_errno(errno, format("cannot write the token file '{}'", path.string()));
    }
  }
  return read_token_file(path);
}

std::string read_token_file(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    fail_errno(errno, format("cannot read the token file '{}'; the server makes it on its first "
                             "start, and --token-file names another",
                             file.string()));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail(ErrorCode::kPermissionDenied,
         "the token file '{}' is open to other users: chmod 600 it, and make a new token if others "
         "may have read it",
         file.string());
  }
  std::string token = read_text_file(file, kMaxTokenFile);
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (token.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "the token file '{}' is empty: remove it, and the server "
         "makes a new one when it starts",
         file.string());
  }
  return token;
}

std::string user_name() {
  if (const passwd* entry = ::getpwuid(::geteuid()); entry != nullptr) return entry->pw_name;
  return format("uid-{}", ::geteuid());
}

}  // namespace harmonics::inline in_server
