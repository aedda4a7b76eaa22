// A socket that listens (private to serve).
#pragma once

#include <cstdint>

#include <harmonics/base/descriptor.h>
#include <harmonics/serve/listen_address.h>

namespace harmonics::inline in_serve {

struct Listening {
  Descriptor socket;
  std::uint16_t port = 0;
};

/// Binds the first address that can be; an Error (kUnavailable) when none can.
[[nodiscard]] Listening open_listening(const ListenAddress& address);

}  // namespace harmonics::inline in_serve
