// What every transport refuses before it sends.
#pragma once

#include <string_view>

#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

/// An attachment above kMaxAttachmentBytes is an Error (kInvalidArgument) that names the boundary.
void check_attachment(std::string_view boundary, const Message& message);
/// A tensor above `limit` bytes is an Error (kResourceExhausted) that names boundary and size.
void check_size(std::string_view boundary, const Message& message, std::uint64_t limit);
/// What a frame can carry: at most kMaxMessageAxes axes, a tensor on the CPU (kInvalidArgument).
void check_framable(std::string_view boundary, const Message& message);
/// A window must let at least one message and one byte through, and at most kMaxWindowMessages.
void check_window(std::string_view boundary, const Window& window);

}  // namespace harmonics::inline in_transport
