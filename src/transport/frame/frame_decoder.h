// Turns a stream of bytes into frames, without knowing where the bytes come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <harmonics/base/bytes.h>

#include "frame.h"

namespace harmonics::inline in_transport {

/// A whole frame whose checksums were right.
struct ReceivedFrame {
  FrameHeader header;
  /// For a message: the message, its tensor in the buffer that the payload was received into.
  Message message;
  /// For the frames of the handshake: their body.
  Bytes meta;
};

/// What a decoder may be made to do.
struct DecoderLimits {
  /// The largest tensor, before and after compression.
  std::uint64_t tensor_bytes = 0;
  std::size_t meta_bytes = kMaxMetaBytes;
  /// Off while greeting: a message is an error then.
  bool messages = true;
};

/// Decodes one frame after the other. The owner of the bytes asks where they belong (`want`), puts
/// them there, straight from a socket, and says how many came (`got`); so a payload is received in
/// its final place. Takes at most kMaxMetaBytes and one buffer of limits.tensor_bytes (three while
/// it decompresses), the latter only after the announced sizes were found right.
///
/// Errors: see decode_header and decode_meta; a wrong CRC is kDataLoss. After one, the decoder must
/// not be used any more.
class FrameDecoder {
 public:
  explicit FrameDecoder(const DecoderLimits& limits) : limits_(limits) {}

  /// Room for the bytes that come next; never empty.
  [[nodiscard]] std::span<std::byte> want();
  /// That many bytes of want() are filled. True when they complete a frame: take it.
  bool got(std::size_t count);
  [[nodiscard]] ReceivedFrame take();

  /// How many bytes the frame that has begun still needs at least.
  [[nodiscard]] std::size_t needs() const { return midway() ? part_bytes_ - filled_ : 0; }
  /// Whether a frame has begun.
  [[nodiscard]] bool midway() const { return part_ != Part::kHeader || filled_ > 0; }

 private:
  enum class Part { kHeader, kMeta, kPayload, kTrailer };

  bool end_part();
  void begin(Part part, std::size_t bytes);
  void begin_meta();
  void begin_payload();
  void check_payload(ByteSpan bytes);
  void finish_message();

  DecoderLimits limits_;
  Part part_ = Part::kHeader;
  std::size_t filled_ = 0;
  std::size_t part_bytes_ = kFrameHeaderBytes;

  HeaderBytes header_bytes_{};
  Bytes meta_bytes_;
  std::size_t payload_seen_ = 0;
  std::uint32_t chunk_crc_ = 0;
  std::vector<std::uint32_t> chunk_crcs_;
  std::vector<std::uint32_t> trailer_;

  FrameHeader header_;
  MessageMeta meta_;
  BufferPtr payload_;
  ReceivedFrame frame_;
};

}  // namespace harmonics::inline in_transport
