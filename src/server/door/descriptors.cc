#include "descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include <harmonics/base/log.h>

namespace harmonics::inline in_server {
namespace {

/// With fewer, a server of a few hundred workers begins to turn connections away.
constexpr std::uint64_t kFewDescriptors = 4096;

}  // namespace

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewDescriptors;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kMaxDescriptors);
  if (limit.rlim_cur < wanted) {
    const rlimit raised{wanted, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur < kFewDescriptors) {
    log_warn("server",
             "this process may open {} files, which bounds how many workers and clients it can "
             "have: raise LimitNOFILE in the unit, or ulimit -Hn",
             limit.rlim_cur);
  }
  return std::min<std::uint64_t>(limit.rlim_cur, kMaxDescriptors);
}

}  // namespace harmonics::inline in_server
