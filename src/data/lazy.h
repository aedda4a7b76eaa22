// A value that is made on first need.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

namespace harmonics::inline in_data {

/// Holds nothing until the first `get`, which makes the value; every later one looks at it without
/// a lock. May be used from several threads at once: one makes, the others wait. If `make` throws,
/// the next `get` tries again.
template <typename T>
class Lazy {
 public:
  template <typename Make>
  const T& get(Make&& make) const {
    if (!ready_.load(std::memory_order_acquire)) {
      const std::lock_guard lock(mutex_);
      if (!value_) value_.emplace(make());
      ready_.store(true, std::memory_order_release);
    }
    return *value_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::atomic<bool> ready_ = false;
  mutable std::optional<T> value_;
};

}  // namespace harmonics::inline in_data
