#include <harmonics/transport/message.h>

namespace harmonics::inline in_transport {

std::string_view message_kind_name(MessageKind kind) {
  switch (kind) {
    case MessageKind::kActivation: return "activation";
    case MessageKind::kGradient: return "gradient";
    case MessageKind::kEpochEnd: return "epoch end";
    case MessageKind::kControl: return "control";
  }
  return "unknown";
}

std::uint64_t message_bytes(const Message& message) {
  return message.tensor.byte_size() + message.attachment.size();
}

}  // namespace harmonics::inline in_transport
