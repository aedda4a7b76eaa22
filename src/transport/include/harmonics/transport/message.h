// What travels over a boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <harmonics/base/bytes.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_transport {

/// The numbers are part of the frame format: never renumber.
enum class MessageKind : std::uint8_t {
  kActivation = 1,
  kGradient = 2,
  kEpochEnd = 3,
  kControl = 4,
};

/// "activation", "gradient", "epoch end", "control".
[[nodiscard]] std::string_view message_kind_name(MessageKind kind);

/// The most bytes that may ride along with a tensor (custody proofs, control texts).
inline constexpr std::size_t kMaxAttachmentBytes = std::size_t{64} << 10;
/// The most axes of a tensor that travels.
inline constexpr std::size_t kMaxMessageAxes = 64;

/// One message. A value: copying shares the tensor's bytes, which never change once it was sent.
struct Message {
  MessageKind kind = MessageKind::kActivation;
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  /// Any dtype and shape; may be undefined (an epoch end has none).
  Tensor tensor = {};
  Bytes attachment = {};
};

/// What a message costs in credits: the bytes of its tensor and of its attachment.
[[nodiscard]] std::uint64_t message_bytes(const Message& message);

}  // namespace harmonics::inline in_transport
