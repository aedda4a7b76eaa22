// The key that a user gets without asking, when a secure run begins and there is none.
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/custody/keys.h>

namespace harmonics::inline in_custody {
namespace {

constexpr std::size_t kMaxNamePart = 64;

// Letters, digits and the signs that names of keys may have.
std::string plain(std::string text) {
  std::erase_if(text, [](char c) { return !key_name_problem(std::string("x") + c).empty(); });
  return text.substr(0, kMaxNamePart);
}

// "<user>@<host>", so that the keys of one person on two machines do not share a name.
std::string own_name() {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  std::string user;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found) {
    user = plain(entry.pw_name);
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string machine = plain(host.data());
  return format("{}@{}", user.empty() || user.front() == '.' ? "user" : user,
                machine.empty() ? "localhost" : machine);
}

// Processes of one user that begin together make one key, not several: held until it is closed.
Descriptor locked_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / ".lock";
  Descriptor lock(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) fail_errno(errno, format("cannot write '{}'", file.string()));
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail_errno(errno, format("cannot lock '{}'", file.string()));
  }
  return lock;
}

bool has_keys(const std::filesystem::path& folder) {
  return std::ranges::any_of(list_folder(folder), [](const std::filesystem::path& file) {
    return file.extension() == ".key";
  });
}

}  // namespace

SigningKey own_signing_key(const std::filesystem::path& folder, const std::string& name) {
  if (!name.empty() || has_keys(folder)) return find_signing_key(folder, name);
  make_key_folder(folder);
  const Descriptor lock = locked_folder(folder);
  if (!has_keys(folder)) {
    const SigningKey made = SigningKey::make(own_name());
    made.save(folder);
    log_warn("custody",
             "there was no key to sign with: made the key '{}' in '{}' ({}); others need its .pub "
             "file to "
             "verify",
             made.name(), folder.string(), key_text(made.public_key()));
  }
  return find_signing_key(folder, name);
}

}  // namespace harmonics::inline in_custody
