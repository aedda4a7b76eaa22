// The frame: how messages, progress and greetings lie on a wire (docs/formats/transport_frame.md).
//
//   header (64 bytes) | meta | zeros to a multiple of 64 | payload | CRC32C of each payload chunk
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <harmonics/base/bytes.h>
#include <harmonics/transport/message.h>

#include "codec.h"
#include "session/session.h"

namespace harmonics::inline in_transport {

inline constexpr std::uint32_t kFrameMagic = 0x4d524148;  // "HARM"
inline constexpr std::uint8_t kFrameVersion = 2;
inline constexpr std::size_t kFrameHeaderBytes = 64;
/// The payload starts at a multiple of this in the frame, and in the memory that receives it.
inline constexpr std::size_t kFrameAlignment = 64;
/// The payload is checked in pieces of this size, each while it is still in the cache.
inline constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
/// The longest meta: an attachment, a shape and what describes them.
inline constexpr std::size_t kMaxMetaBytes = kMaxAttachmentBytes + 8 * kMaxMessageAxes + 64;

/// The numbers are part of the format: never renumber.
enum class FrameType : std::uint8_t {
  kHello = 1,      // first frame of the connecting end: who it is and how far it got
  kWelcome = 2,    // the same of the listening end: the connection is up
  kRefuse = 3,     // no connection, and why
  kChallenge = 4,  // the listening end asks for proof of the token
  kProof = 5,
  kMessage = 6,
  kProgress = 7,  // a sign of life; like every frame from here on it carries progress
  kEnd = 8,       // nothing follows; numbered like a message
  kAbandon = 9,   // the sender is gone for good without having ended
  kLeave = 10,    // the sender has ended, knows that all it sent has arrived, and is gone
};

inline constexpr std::uint8_t kFlagAsk = 1;    // the sender waits for progress
inline constexpr std::uint8_t kFlagProbe = 2;  // the receiver answers at once, whatever it has

/// The first 64 bytes, decoded.
struct FrameHeader {
  FrameType type = FrameType::kProgress;
  Codec codec = Codec::kNone;
  std::uint8_t flags = 0;
  /// CRC32C of the boundary's name: a frame that strayed from another boundary shows.
  std::uint32_t boundary = 0;
  std::uint32_t meta_bytes = 0;
  std::uint32_t meta_crc = 0;
  Sequence sequence = 0;
  std::uint64_t step = 0;
  std::uint32_t micro_batch = 0;
  std::uint64_t payload_bytes = 0;
  Progress progress;
  bool operator==(const FrameHeader&) const = default;
};

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

[[nodiscard]] HeaderBytes encode_header(const FrameHeader& header);
/// Checks magic, version, CRC, type, codec and the bounds that hold for every frame. Another magic
/// or version is an Error (kInvalidArgument, kUnimplemented) that says what the bytes look like
/// (HTTP, TLS); damage is kDataLoss.
[[nodiscard]] FrameHeader decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

/// What describes a message beside its payload.
struct MessageMeta {
  MessageKind kind = MessageKind::kActivation;
  bool has_tensor = false;
  TensorSpec spec;
  Bytes attachment;
};

[[nodiscard]] Bytes encode_meta(const Message& message);
/// Every count is checked before memory is taken; what is wrong is an Error (kDataLoss).
[[nodiscard]] MessageMeta decode_meta(ByteSpan bytes);

/// How many bytes the tensor of a message has, by its meta. Above `limit` is an Error
/// (kResourceExhausted); a payload length that does not fit it is kDataLoss.
std::uint64_t checked_tensor_bytes(const FrameHeader& header, const MessageMeta& meta,
                                   std::uint64_t limit);
/// The message behind a header, a meta and a payload whose sizes were checked; decompresses.
[[nodiscard]] Message assemble_message(const FrameHeader& header, MessageMeta meta,
                                       BufferPtr payload);

/// The id that frames of a boundary carry.
[[nodiscard]] std::uint32_t boundary_id(std::string_view name);

/// Zeros between meta and payload.
[[nodiscard]] constexpr std::size_t meta_padding(std::size_t meta_bytes) {
  return (kFrameAlignment - meta_bytes % kFrameAlignment) % kFrameAlignment;
}
[[nodiscard]] constexpr std::size_t chunk_count(std::uint64_t payload_bytes) {
  return static_cast<std::size_t>((payload_bytes + kChunkBytes - 1) / kChunkBytes);
}

/// A message made ready for any number of writings: what does not change between them.
struct OutgoingMessage {
  /// All but flags and progress.
  FrameHeader header;
  /// Meta and padding.
  Bytes meta;
  /// Points into `owner`.
  ByteSpan payload;
  BufferPtr owner;
  /// What it costs in credits.
  std::uint64_t cost = 0;
};

/// Encodes, compressing if the codec says so and it helps. The message must have passed the checks
/// of message_check.h.
[[nodiscard]] OutgoingMessage encode_message(const Message& message, Codec codec);

}  // namespace harmonics::inline in_transport
