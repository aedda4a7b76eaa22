#include "message_check.h"

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {

void check_attachment(std::string_view boundary, const Message& message) {
  if (message.attachment.size() > kMaxAttachmentBytes) {
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}': an attachment of {} bytes is too long, at most {}; send it as a tensor",
         boundary, message.attachment.size(), kMaxAttachmentBytes);
  }
}

void check_size(std::string_view boundary, const Message& message, std::uint64_t limit) {
  if (message.tensor.byte_size() > limit) {
    fail(ErrorCode::kResourceExhausted,
         "boundary '{}': a tensor of {} bytes ({}) is above the limit of {} bytes; raise "
         "max_message_size at both ends or send smaller micro-batches",
         boundary, message.tensor.byte_size(), spec_text(message.tensor.spec()), limit);
  }
}

void check_framable(std::string_view boundary, const Message& message) {
  if (message.tensor.device().kind != DeviceKind::kCpu) {
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}': a tensor on a GPU cannot leave the process; copy it to the CPU first",
         boundary);
  }
  if (message.tensor.shape().size() > kMaxMessageAxes) {
    fail(ErrorCode::kInvalidArgument, "boundary '{}': a tensor of {} axes, at most {} can be sent",
         boundary, message.tensor.shape().size(), kMaxMessageAxes);
  }
}

void check_window(std::string_view boundary, const Window& window) {
  if (window.bytes == 0 || window.messages == 0 || window.messages > kMaxWindowMessages) {
    fail(ErrorCode::kInvalidArgument,
         "boundary '{}': a window of {} bytes and {} messages; it needs at least 1 byte and 1 to "
         "{} messages",
         boundary, window.bytes, window.messages, kMaxWindowMessages);
  }
}

}  // namespace harmonics::inline in_transport
