// The application metadata with which an unmodified Flight client says what a message is.
#pragma once

#include <string>
#include <string_view>

#include <harmonics/transport/message.h>

namespace harmonics::inline in_transport {

/// The longest tensor that travels as text.
inline constexpr std::size_t kMaxTextTensorBytes = std::size_t{4} << 20;

/// Whether the tensor of a message travels in its text: that of a control message which is bytes in
/// one axis. A Flight stream has one schema, which is that of activations or gradients.
[[nodiscard]] bool tensor_is_text(const Message& message);

/// "kind=gradient step=3 micro_batch=0 attachment=00ff", the attachment only when there is one;
/// "kind=control … bytes=00ff" when the tensor is text. One longer than the limit is an Error
/// (kResourceExhausted).
[[nodiscard]] std::string message_text(const Message& message);

/// Reads it into the message; what is not named stays as it is, as does a tensor that is no text.
/// Unknown keys, wrong numbers, a longer attachment than a message may have, and bytes of anything
/// but a control message are an Error (kInvalidArgument).
void read_message_text(std::string_view text, Message& message);

}  // namespace harmonics::inline in_transport
