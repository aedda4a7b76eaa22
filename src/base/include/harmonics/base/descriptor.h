// A file descriptor with an owner. Needs no library: the worker's supervisor uses it too.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace harmonics::inline in_base {

/// Owns a file descriptor, or none: a negative number, which is what a call that failed gives. It
/// is closed with the object; closing leaves errno as it was, so that a failure can still be told
/// by its reason. One thread.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Who calls it owns the descriptor from now on.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  /// Closes what it owns and owns `fd` instead.
  void reset(int fd = -1) noexcept {
    const int reason = errno;
    if (fd_ >= 0) ::close(fd_);
    errno = reason;
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace harmonics::inline in_base
