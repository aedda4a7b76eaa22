// A link over a byte stream: frames are gathered from where they lie and received into place.
#pragma once

#include "link.h"
#include "stream.h"

namespace harmonics {

/// Owns the stream.
[[nodiscard]] LinkPtr make_stream_link(StreamPtr stream, const DecoderLimits& limits);

}  // namespace harmonics
