#include "credentials.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace harmonics::inline in_worker {
namespace {

// The system's own calls: those of the C library change all threads of a process.

int set_groups(const std::vector<gid_t>& groups) {
  return static_cast<int>(::syscall(SYS_setgroups, groups.size(), groups.data()));
}

int get_capabilities(__user_cap_data_struct* words) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  return static_cast<int>(::syscall(SYS_capget, &header, words));
}

int set_capabilities(const __user_cap_data_struct* words) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  return static_cast<int>(::syscall(SYS_capset, &header, words));
}

struct Need {
  unsigned number;
  const char* name;
};
constexpr std::array kNeeds = {Need{CAP_SETUID, "CAP_SETUID"}, Need{CAP_SETGID, "CAP_SETGID"},
                               Need{CAP_CHOWN, "CAP_CHOWN"}, Need{CAP_KILL, "CAP_KILL"}};

/// What lets a thread past the rights of files, whoever it is.
constexpr unsigned kPastRights =
    1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH | 1U << CAP_FOWNER;

}  // namespace

std::vector<const char*> lacking_capabilities() {
  std::array<__user_cap_data_struct, 2> words{};
  std::vector<const char*> lacking;
  const bool known = get_capabilities(words.data()) == 0;
  for (const Need& need : kNeeds) {
    const bool has = known && (words[0].effective & 1U << need.number) != 0;
    // Root's programs have what root has, those of others only what is ambient.
    const bool handed_on =
        ::geteuid() == 0 || ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, need.number, 0, 0) == 1;
    if (!has || !handed_on) lacking.push_back(need.name);
  }
  return lacking;
}

bool become_user(const TaskCredentials& user) {
  if (set_groups(user.groups) != 0) return false;
  if (::syscall(SYS_setresgid, user.gid, user.gid, user.gid) != 0) return false;
  if (::syscall(SYS_setresuid, user.uid, user.uid, user.uid) != 0) return false;
  const std::array<__user_cap_data_struct, 2> nothing{};
  if (set_capabilities(nothing.data()) != 0) return false;
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

AsUser::AsUser(const TaskCredentials* user) {
  if (user == nullptr) return;
  std::array<__user_cap_data_struct, 2> words{};
  const int count = ::getgroups(0, nullptr);
  groups_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  good_ = count >= 0 && ::getgroups(count, groups_.data()) == count &&
          get_capabilities(words.data()) == 0;
  if (!good_) return;
  for (std::size_t i = 0; i < words.size(); ++i) {
    capabilities_[i] = {words[i].effective, words[i].permitted, words[i].inheritable};
  }
  changed_ = true;
  ::prctl(PR_GET_PDEATHSIG, &death_signal_);
  good_ = set_groups(user->groups) == 0;
  gid_ = static_cast<gid_t>(::setfsgid(user->gid));
  uid_ = static_cast<uid_t>(::setfsuid(user->uid));
  // They tell what was before, and an impossible one changes nothing.
  constexpr auto kNone = static_cast<uid_t>(-1);
  good_ = good_ && static_cast<gid_t>(::setfsgid(kNone)) == user->gid &&
          static_cast<uid_t>(::setfsuid(kNone)) == user->uid && get_capabilities(words.data()) == 0;
  words[0].effective &= ~kPastRights;
  good_ = good_ && set_capabilities(words.data()) == 0;
}

AsUser::~AsUser() {
  if (!changed_) return;
  ::setfsuid(uid_);
  ::setfsgid(gid_);
  std::array<__user_cap_data_struct, 2> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i].effective = capabilities_[i].effective;
    words[i].permitted = capabilities_[i].permitted;
    words[i].inheritable = capabilities_[i].inheritable;
  }
  // A thread that cannot come back to itself would go on with another's rights.
  if (set_capabilities(words.data()) != 0 || set_groups(groups_) != 0) std::abort();
  if (death_signal_ != 0) ::prctl(PR_SET_PDEATHSIG, death_signal_);
}

}  // namespace harmonics::inline in_worker
