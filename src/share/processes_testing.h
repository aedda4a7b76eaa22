// Child processes for tests, ended by their ids whatever happens, and memory shared with them.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

namespace harmonics::inline in_share {

/// A forked process that runs a function and exits with 0, or with 1 after an exception. Killed and
/// fetched when this is destroyed. Fork while the test has a single thread.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ < 0) fail(ErrorCode::kInternal, "no process could be made");
    if (pid_ > 0) return;
    try {
      body();
    } catch (const std::exception& error) {
      ::dprintf(2, "child: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  ~Child() {
    if (pid_ == 0) return;
    kill();
    (void)wait();
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&&) = delete;

  /// SIGKILL, and it is dead; the exit status is not fetched, as with a parent that is busy.
  void kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t ended{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT);
  }
  /// The exit status, or -1 after a signal.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

/// A value that a test shares with its children.
template <typename T>
class SharedValue {
 public:
  SharedValue()
      : value_(new (::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                           -1, 0)) T{}) {}
  ~SharedValue() { ::munmap(value_, sizeof(T)); }
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

/// Gives way until a condition holds that another process brings about.
inline void await(const std::function<bool()>& condition) {
  while (!condition()) ::sched_yield();
}

inline std::string unique_shared_name(const char* what) {
  static int number = 0;
  return format("test-{}-{}-{}", what, ::getpid(), ++number);
}

}  // namespace harmonics::inline in_share
