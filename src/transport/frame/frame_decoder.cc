#include "frame_decoder.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/transport/crc32c.h>

namespace harmonics::inline in_transport {

std::span<std::byte> FrameDecoder::want() {
  std::byte* base = nullptr;
  switch (part_) {
    case Part::kHeader: base = header_bytes_.data(); break;
    case Part::kMeta: base = meta_bytes_.data(); break;
    case Part::kPayload: base = payload_->data(); break;
    case Part::kTrailer: base = reinterpret_cast<std::byte*>(trailer_.data()); break;
  }
  return {base + filled_, part_bytes_ - filled_};
}

bool FrameDecoder::got(std::size_t count) {
  if (part_ == Part::kPayload) check_payload({payload_->data() + filled_, count});
  filled_ += count;
  // Parts that are empty end at once.
  while (filled_ == part_bytes_) {
    if (end_part()) return true;
  }
  return false;
}

ReceivedFrame FrameDecoder::take() { return std::move(frame_); }

void FrameDecoder::begin(Part part, std::size_t bytes) {
  part_ = part;
  filled_ = 0;
  part_bytes_ = bytes;
}

// True when a frame is complete.
bool FrameDecoder::end_part() {
  switch (part_) {
    case Part::kHeader:
      header_ = decode_header(header_bytes_);
      begin_meta();
      return false;
    case Part::kMeta: begin_payload(); return false;
    case Part::kPayload:
      trailer_.resize(chunk_crcs_.size());
      begin(Part::kTrailer, trailer_.size() * sizeof(std::uint32_t));
      return false;
    case Part::kTrailer: break;
  }
  frame_ = {};
  frame_.header = header_;
  if (header_.type == FrameType::kMessage) {
    finish_message();
  } else {
    meta_bytes_.resize(header_.meta_bytes);
    frame_.meta = std::move(meta_bytes_);
  }
  payload_.reset();
  begin(Part::kHeader, kFrameHeaderBytes);
  return true;
}

void FrameDecoder::begin_meta() {
  if (!limits_.messages && header_.type >= FrameType::kMessage) {
    fail(ErrorCode::kInvalidArgument, "a frame of type {} came before the greeting",
         static_cast<int>(header_.type));
  }
  if (header_.meta_bytes > limits_.meta_bytes) {
    fail(ErrorCode::kDataLoss, "a frame announces {} bytes of meta, at most {}", header_.meta_bytes,
         limits_.meta_bytes);
  }
  meta_bytes_.resize(header_.meta_bytes + meta_padding(header_.meta_bytes));
  begin(Part::kMeta, meta_bytes_.size());
}

void FrameDecoder::begin_payload() {
  const ByteSpan meta(meta_bytes_.data(), header_.meta_bytes);
  if (crc32c(meta) != header_.meta_crc) {
    fail(ErrorCode::kDataLoss, "the meta of frame {} was damaged on its way (CRC)",
         header_.sequence);
  }
  payload_seen_ = 0;
  chunk_crc_ = 0;
  chunk_crcs_.clear();
  if (header_.type == FrameType::kMessage) {
    meta_ = decode_meta(meta);
    checked_tensor_bytes(header_, meta_, limits_.tensor_bytes);
    payload_ = BufferPool::shared().take(header_.payload_bytes);
    chunk_crcs_.reserve(chunk_count(header_.payload_bytes));
  }
  begin(Part::kPayload, header_.payload_bytes);
}

void FrameDecoder::check_payload(ByteSpan bytes) {
  while (!bytes.empty()) {
    const std::size_t to_chunk_end = kChunkBytes - payload_seen_ % kChunkBytes;
    const ByteSpan piece = bytes.first(std::min(to_chunk_end, bytes.size()));
    chunk_crc_ = crc32c(piece, chunk_crc_);
    payload_seen_ += piece.size();
    if (payload_seen_ % kChunkBytes == 0 || payload_seen_ == header_.payload_bytes) {
      chunk_crcs_.push_back(std::exchange(chunk_crc_, 0));
    }
    bytes = bytes.subspan(piece.size());
  }
}

void FrameDecoder::finish_message() {
  for (std::size_t i = 0; i < trailer_.size(); ++i) {
    if (trailer_[i] != chunk_crcs_[i]) {
      fail(ErrorCode::kDataLoss,
           "message {} was damaged on its way (CRC of payload bytes {} and following)",
           header_.sequence, i * kChunkBytes);
    }
  }
  frame_.message = assemble_message(header_, std::move(meta_), std::move(payload_));
}

}  // namespace harmonics::inline in_transport
