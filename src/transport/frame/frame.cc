#include "frame.h"

#include <cstring>
#include <string>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/transport/crc32c.h>

namespace harmonics::inline in_transport {
namespace {

constexpr std::size_t kCheckedBytes = kFrameHeaderBytes - sizeof(std::uint32_t);
constexpr std::uint8_t kKnownFlags = kFlagAsk | kFlagProbe;

std::string printable(ByteSpan bytes) {
  std::string out;
  for (const std::byte byte : bytes) {
    const char c = static_cast<char>(byte);
    out += c >= ' ' && c <= '~' ? c : '.';
  }
  return out;
}

[[noreturn]] void wrong_magic(ByteSpan bytes) {
  const std::string start = printable(bytes.first(16));
  const auto begins = [&](std::string_view text) { return start.starts_with(text); };
  if (begins("GET ") || begins("POST ") || begins("PUT ") || begins("HEAD ") || begins("HTTP/") ||
      begins("PRI *") || begins("OPTIONS ")) {
    fail(ErrorCode::kInvalidArgument,
         "the peer speaks HTTP ('{}'), not the Harmonics frame format; check host and port", start);
  }
  if (bytes[0] == std::byte{0x16} && bytes[1] == std::byte{0x03}) {
    fail(ErrorCode::kInvalidArgument,
         "the peer speaks TLS, this end does not: give both ends TLS options, or none");
  }
  fail(ErrorCode::kInvalidArgument,
       "the peer sent '{}' where a Harmonics frame should start; check host and port", start);
}

void check_bounds(const FrameHeader& header) {
  if (header.meta_bytes > kMaxMetaBytes) {
    fail(ErrorCode::kDataLoss, "a frame announces {} bytes of meta, at most {}", header.meta_bytes,
         kMaxMetaBytes);
  }
  if (header.type != FrameType::kMessage && header.payload_bytes != 0) {
    fail(ErrorCode::kDataLoss, "a frame of type {} announces a payload of {} bytes",
         static_cast<int>(header.type), header.payload_bytes);
  }
}

}  // namespace

HeaderBytes encode_header(const FrameHeader& header) {
  HeaderBytes out{};
  std::byte* at = out.data();
  const auto put = [&at](auto value) {
    std::memcpy(at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(kFrameMagic);
  put(kFrameVersion);
  put(header.type);
  put(header.codec);
  put(header.flags);
  put(header.boundary);
  put(header.meta_bytes);
  put(header.sequence);
  put(header.step);
  put(header.micro_batch);
  put(header.meta_crc);
  put(header.payload_bytes);
  put(header.progress.delivered);
  put(static_cast<std::uint32_t>(header.progress.delivered - header.progress.consumed));
  put(crc32c(ByteSpan(out).first(kCheckedBytes)));
  return out;
}

FrameHeader decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* at = bytes.data();
  const auto get = [&at]<typename T>(T& value) {
    std::memcpy(&value, at, sizeof(value));
    at += sizeof(value);
  };
  std::uint32_t magic = 0, crc = 0, backlog = 0;
  std::uint8_t version = 0, type = 0, codec = 0;
  FrameHeader header;
  get(magic);
  get(version);
  get(type);
  get(codec);
  get(header.flags);
  get(header.boundary);
  get(header.meta_bytes);
  get(header.sequence);
  get(header.step);
  get(header.micro_batch);
  get(header.meta_crc);
  get(header.payload_bytes);
  get(header.progress.delivered);
  get(backlog);
  get(crc);
  if (magic != kFrameMagic) wrong_magic(bytes);
  if (version != kFrameVersion) {
    fail(ErrorCode::kUnimplemented,
         "the peer speaks version {} of the frame format, this end version {}: use one release of "
         "Harmonics at both ends",
         version, kFrameVersion);
  }
  if (crc != crc32c(bytes.first<kCheckedBytes>())) {
    fail(ErrorCode::kDataLoss, "the header of a frame was damaged on its way (CRC)");
  }
  if (type < static_cast<std::uint8_t>(FrameType::kHello) ||
      type > static_cast<std::uint8_t>(FrameType::kLeave) ||
      codec > static_cast<std::uint8_t>(Codec::kZstdPlanes) || (header.flags & ~kKnownFlags) != 0 ||
      backlog > header.progress.delivered) {
    fail(ErrorCode::kDataLoss, "a frame has an unknown type {}, codec {}, flags {} or progress",
         type, codec, header.flags);
  }
  header.type = static_cast<FrameType>(type);
  header.codec = static_cast<Codec>(codec);
  header.progress.consumed = header.progress.delivered - backlog;
  check_bounds(header);
  return header;
}

Bytes encode_meta(const Message& message) {
  ByteWriter out;
  out.number(static_cast<std::uint8_t>(message.kind));
  out.number(static_cast<std::uint8_t>(message.tensor.defined() ? 1 : 0));
  out.number(static_cast<std::uint8_t>(message.tensor.dtype()));
  out.number(static_cast<std::uint8_t>(message.tensor.shape().size()));
  out.number(static_cast<std::uint32_t>(message.attachment.size()));
  for (const std::int64_t length : message.tensor.shape()) out.number(length);
  out.raw(message.attachment);
  return out.take();
}

MessageMeta decode_meta(ByteSpan bytes) {
  ByteReader in(bytes, "transport frame");
  MessageMeta meta;
  const auto kind = in.number<std::uint8_t>();
  const auto has_tensor = in.number<std::uint8_t>();
  const auto dtype = in.number<std::uint8_t>();
  const auto axes = in.number<std::uint8_t>();
  const auto attachment = in.number<std::uint32_t>();
  if (kind < static_cast<std::uint8_t>(MessageKind::kActivation) ||
      kind > static_cast<std::uint8_t>(MessageKind::kControl)) {
    in.broken(format("unknown kind of message {}", kind));
  }
  if (has_tensor > 1) in.broken("the tensor flag is neither 0 nor 1");
  if (dtype >= kDTypeCount) in.broken(format("unknown dtype {}", dtype));
  if (axes > kMaxMessageAxes || (has_tensor == 0 && axes > 0)) in.broken("too many axes");
  if (attachment > kMaxAttachmentBytes) in.broken("too long an attachment");
  meta.kind = static_cast<MessageKind>(kind);
  meta.has_tensor = has_tensor == 1;
  meta.spec.dtype = static_cast<DType>(dtype);
  for (int i = 0; i < axes; ++i) meta.spec.shape.push_back(in.number<std::int64_t>());
  try {
    (void)element_count(meta.spec.shape);
  } catch (const Error& error) {
    in.broken(error.what());
  }
  const ByteSpan attached = in.take(attachment);
  meta.attachment.assign(attached.begin(), attached.end());
  if (in.left() != 0) in.broken("bytes follow the attachment");
  return meta;
}

std::uint64_t checked_tensor_bytes(const FrameHeader& header, const MessageMeta& meta,
                                   std::uint64_t limit) {
  const std::uint64_t raw =
      meta.has_tensor
          ? static_cast<std::uint64_t>(element_count(meta.spec.shape)) * dtype_size(meta.spec.dtype)
          : 0;
  if (raw > limit) {
    fail(ErrorCode::kResourceExhausted,
         "message {} announces a tensor of {} bytes, this boundary takes at most {}",
         header.sequence, raw, limit);
  }
  const bool fits =
      header.codec == Codec::kNone ? header.payload_bytes == raw : header.payload_bytes < raw;
  if (!fits) {
    fail(ErrorCode::kDataLoss, "message {} announces {} payload bytes for a tensor of {}",
         header.sequence, header.payload_bytes, raw);
  }
  return raw;
}

Message assemble_message(const FrameHeader& header, MessageMeta meta, BufferPtr payload) {
  Message out;
  out.kind = meta.kind;
  out.step = header.step;
  out.micro_batch = header.micro_batch;
  out.attachment = std::move(meta.attachment);
  if (!meta.has_tensor) return out;
  if (header.codec == Codec::kNone) {
    out.tensor = Tensor(std::move(meta.spec), std::move(payload));
    return out;
  }
  out.tensor = Tensor::empty(std::move(meta.spec.shape), meta.spec.dtype);
  unpack({payload->data(), payload->size()}, dtype_size(out.tensor.dtype()),
         out.tensor.mutable_bytes());
  return out;
}

std::uint32_t boundary_id(std::string_view name) { return crc32c(bytes_of(name)); }

OutgoingMessage encode_message(const Message& message, Codec codec) {
  OutgoingMessage out;
  out.meta = encode_meta(message);
  out.header.type = FrameType::kMessage;
  out.header.step = message.step;
  out.header.micro_batch = message.micro_batch;
  out.header.meta_bytes = static_cast<std::uint32_t>(out.meta.size());
  out.header.meta_crc = crc32c(out.meta);
  out.meta.resize(out.meta.size() + meta_padding(out.meta.size()));
  out.payload = message.tensor.bytes();
  out.owner = message.tensor.buffer();
  out.cost = message_bytes(message);
  if (codec == Codec::kZstdPlanes) {
    if (auto packed = pack(out.payload, dtype_size(message.tensor.dtype()))) {
      out.header.codec = codec;
      out.owner = std::move(packed->buffer);
      out.payload = {out.owner->data(), packed->size};
    }
  }
  out.header.payload_bytes = out.payload.size();
  return out;
}

}  // namespace harmonics::inline in_transport
