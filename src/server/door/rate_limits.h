// How many requests a user may send in a second (private to server).
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_server {

/// A bucket for each user that holds a second's worth and fills evenly. Any thread. Users are those
/// of tokens, so there are never more buckets than tokens (and one for those who have none).
class RateLimits {
 public:
  explicit RateLimits(std::uint64_t per_second) : per_second_(static_cast<double>(per_second)) {}
  /// Whether one more may come at `now`, which never runs backwards; counts it if so.
  [[nodiscard]] bool admit(const std::string& user, Nanoseconds now);

 private:
  struct Bucket {
    double left = 0;
    Nanoseconds filled{};
  };
  const double per_second_;
  std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace harmonics::inline in_server
