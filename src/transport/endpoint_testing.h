// For tests: pairs of ends on this machine.
#pragma once

#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/transport/transport.h>

namespace harmonics {

/// A boundary name that no other test process uses.
inline std::string unique_name(const std::string& stem) {
  static std::atomic<int> count = 0;
  return format("{}.{}.{}", stem, ::getpid(), count++);
}

/// The listening end of a boundary at a free port of this machine.
inline TransportPtr listening_end(RemoteBinding binding, const TransportOptions& options = {}) {
  binding.host = "127.0.0.1";
  binding.port = 0;
  binding.listen = true;
  return make_transport(binding, options);
}

/// The end that connects to it.
inline TransportPtr connecting_end(const Transport& listening,
                                   const TransportOptions& options = {}) {
  RemoteBinding binding = listening.binding();
  binding.listen = false;
  return make_transport(binding, options);
}

/// Both ends of a boundary.
inline std::pair<TransportPtr, TransportPtr> local_pair(RemoteBinding binding,
                                                        const TransportOptions& options = {}) {
  TransportPtr first = listening_end(std::move(binding), options);
  TransportPtr second = connecting_end(*first, options);
  return {std::move(first), std::move(second)};
}

}  // namespace harmonics
