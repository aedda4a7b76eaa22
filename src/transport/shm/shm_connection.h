// A connection inside one host: frames in a ring, payloads in blocks, the socket only for
// descriptors.
#pragma once

#include "connection.h"
#include "session/greet.h"

namespace harmonics::inline in_transport {

/// Payloads up to this size travel in the ring itself; larger ones take a block.
inline constexpr std::size_t kInlinePayload = std::size_t{8} << 10;

/// The most messages in flight: the ring has room for that many of the longest.
inline constexpr std::uint32_t kMaxShmMessages = 64;

/// Makes the connection on a greeted local socket: the listening end makes the shared memory and
/// passes it on, the connecting end takes it. A process of another user is refused
/// (kPermissionDenied).
[[nodiscard]] ConnectionPtr make_shm_connection(StreamPtr stream, const Agreement& agreement,
                                                Deadline deadline);

}  // namespace harmonics::inline in_transport
