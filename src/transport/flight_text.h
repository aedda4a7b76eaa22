// The application metadata with which an unmodified Flight client says what a message is.
#pragma once

#include <string>
#include <string_view>

#include <harmonics/transport/message.h>

namespace harmonics {

/// "kind=gradient step=3 micro_batch=0 attachment=00ff", the attachment only when there is one.
[[nodiscard]] std::string message_text(const Message& message);

/// Reads it into all of the message but its tensor; what is not named stays as it is. Unknown keys,
/// wrong numbers and a longer attachment than a message may have are an Error (kInvalidArgument).
void read_message_text(std::string_view text, Message& message);

}  // namespace harmonics
