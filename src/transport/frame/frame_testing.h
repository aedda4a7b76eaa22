// For tests: whole frames as bytes, and bytes through the decoder.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/transport/crc32c.h>

#include "frame_decoder.h"

namespace harmonics::inline in_transport {

/// The bytes of one message as a transport would write them.
inline Bytes frame_bytes(const OutgoingMessage& message) {
  ByteWriter out;
  out.raw(encode_header(message.header));
  out.raw(message.meta);
  out.raw(message.payload);
  for (std::size_t at = 0; at < message.payload.size(); at += kChunkBytes) {
    const std::size_t size = std::min(kChunkBytes, message.payload.size() - at);
    out.number(crc32c(message.payload.subspan(at, size)));
  }
  return out.take();
}

inline Bytes frame_bytes(const Message& message, Codec codec = Codec::kNone) {
  return frame_bytes(encode_message(message, codec));
}

/// A frame without payload.
inline Bytes control_bytes(FrameType type, const Bytes& meta) {
  FrameHeader header;
  header.type = type;
  header.meta_bytes = static_cast<std::uint32_t>(meta.size());
  header.meta_crc = crc32c(meta);
  ByteWriter out;
  out.raw(encode_header(header));
  out.raw(meta);
  out.raw(Bytes(meta_padding(meta.size())));
  return out.take();
}

/// Feeds `bytes` to the decoder in pieces of at most `piece` bytes; the frames that came out.
inline std::vector<ReceivedFrame> decode_all(FrameDecoder& decoder, ByteSpan bytes,
                                             std::size_t piece = SIZE_MAX) {
  std::vector<ReceivedFrame> frames;
  while (!bytes.empty()) {
    const std::span<std::byte> to = decoder.want();
    const std::size_t count = std::min({to.size(), bytes.size(), piece});
    std::copy_n(bytes.begin(), count, to.begin());
    bytes = bytes.subspan(count);
    if (decoder.got(count)) frames.push_back(decoder.take());
  }
  return frames;
}

/// Same content, bit for bit.
inline bool same_message(const Message& a, const Message& b) {
  return a.kind == b.kind && a.step == b.step && a.micro_batch == b.micro_batch &&
         a.attachment == b.attachment && a.tensor.defined() == b.tensor.defined() &&
         a.tensor.spec() == b.tensor.spec() &&
         std::ranges::equal(a.tensor.bytes(), b.tensor.bytes());
}

}  // namespace harmonics::inline in_transport
