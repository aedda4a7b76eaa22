#include "rate_limits.h"

#include <algorithm>

namespace harmonics::inline in_server {

bool RateLimits::admit(const std::string& user, Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  const auto [place, added] = buckets_.try_emplace(user, Bucket{per_second_, now});
  Bucket& bucket = place->second;
  // Threads read the clock before they come here, so it may seem to run back by a moment.
  const Nanoseconds passed = std::max(now - bucket.filled, Nanoseconds(0));
  bucket.filled = std::max(now, bucket.filled);
  bucket.left = std::min(per_second_, bucket.left + per_second_ * in_seconds(passed));
  if (bucket.left < 1) return false;
  bucket.left -= 1;
  return true;
}

}  // namespace harmonics::inline in_server
