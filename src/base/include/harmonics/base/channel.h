// A bounded queue between threads: the way threads of this house talk to each other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace harmonics::inline in_base {

/// Holds at most `capacity` values (at least 1). `push` waits while it is full, `pop` while it is
/// empty. After `close`, `push` refuses and `pop` drains what is left, then answers nothing. All
/// members may be called from any thread.
template <typename T>
class Channel {
 public:
  explicit Channel(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// False when the channel was closed before there was room.
  bool push(T value) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [&] { return closed_ || values_.size() < capacity_; });
    if (closed_) return false;
    values_.push_back(std::move(value));
    has_value_.notify_one();
    return true;
  }

  /// A timeout from here on never passes (added to the present it could leave the clock's range).
  static constexpr std::chrono::nanoseconds kForever = std::chrono::hours(24 * 365);

  /// Nothing when the channel is closed and empty, or when `timeout` passed first.
  std::optional<T> pop(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return closed_ || !values_.empty(); };
    if (timeout >= kForever) {
      has_value_.wait(lock, ready);
    } else if (timeout > timeout.zero()) {  // a wait of no time would still ask the kernel
      has_value_.wait_for(lock, timeout, ready);
    }
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    has_room_.notify_one();
    return value;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    has_room_.notify_all();
    has_value_.notify_all();
  }

  [[nodiscard]] bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable has_room_;
  std::condition_variable has_value_;
  std::deque<T> values_;
  bool closed_ = false;
};

}  // namespace harmonics::inline in_base
