#include "cgroup_birth.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace harmonics::inline in_worker {
namespace {

/// As the kernel reads it (struct clone_args, size 88).
struct CloneArguments {
  std::uint64_t flags = 0;
  std::uint64_t pidfd = 0;
  std::uint64_t child_tid = 0;
  std::uint64_t parent_tid = 0;
  std::uint64_t exit_signal = 0;
  std::uint64_t stack = 0;
  std::uint64_t stack_size = 0;
  std::uint64_t tls = 0;
  std::uint64_t set_tid = 0;
  std::uint64_t set_tid_size = 0;
  std::uint64_t cgroup = 0;
};
static_assert(sizeof(CloneArguments) == 88);

constexpr std::uint64_t kIntoCgroup = 0x200000000;
constexpr long kClone3 = 435;

/// The call itself, in line: a function around it would return twice on one stack.
[[gnu::always_inline]] inline long clone3(const CloneArguments& arguments) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(arguments);
  return -ENOSYS;  // their own vfork must be used
#elif defined(__x86_64__)
  long result = kClone3;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(&arguments), "S"(sizeof arguments)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long number __asm__("x8") = kClone3;
  register long first __asm__("x0") = reinterpret_cast<long>(&arguments);
  register long second __asm__("x1") = sizeof arguments;
  __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second) : "memory");
  return first;
#else
  static_cast<void>(arguments);
  return -ENOSYS;
#endif
}

}  // namespace

__attribute__((noinline)) pid_t vfork_into_cgroup(int cgroup, void (*child)(void*),
                                                  void* argument) {
  CloneArguments arguments;
  arguments.flags = CLONE_VM | CLONE_VFORK | kIntoCgroup;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = static_cast<std::uint64_t>(cgroup);
  const long result = clone3(arguments);
  if (result == 0) {
    child(argument);
    ::_exit(127);
  }
  if (result < 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return static_cast<pid_t>(result);
}

}  // namespace harmonics::inline in_worker
