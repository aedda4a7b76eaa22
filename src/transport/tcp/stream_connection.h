// A connection over a byte stream: frames are gathered from where they lie and received into place.
#pragma once

#include "connection.h"
#include "stream.h"

namespace harmonics::inline in_transport {

/// Owns the stream.
[[nodiscard]] ConnectionPtr make_stream_connection(StreamPtr stream, const DecoderLimits& limits);

}  // namespace harmonics::inline in_transport
