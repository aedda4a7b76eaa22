#include "tcp_link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include <harmonics/base/error.h>

#include "crc32c.h"

namespace harmonics {
namespace {

// Small frames come many at a time through this much memory; larger payloads bypass it.
constexpr std::size_t kStagingBytes = std::size_t{64} << 10;
// After this many reads the I/O thread looks after other things for a moment.
constexpr int kReadsPerTurn = 32;

// The bytes of one frame that are not written yet. Checksums of payload chunks are computed just
// before their chunk is written, while writing brings it into the cache anyway.
class FrameCursor {
 public:
  void start(OutgoingFrame frame) {
    frame_ = std::move(frame);
    header_ = encode_header(frame_.header);
    position_ = 0;
    crcs_.clear();
    const std::size_t chunks = chunk_count(payload().size());
    trailer_begin_ = payload_begin() + payload().size();
    end_ = trailer_begin_ + chunks * sizeof(std::uint32_t);
  }

  [[nodiscard]] bool done() const { return position_ == end_; }
  void advance(std::size_t count) { position_ += count; }
  void clear() { frame_ = {}; }

  /// The next bytes: up to the end of a chunk, the last one with the trailer.
  std::span<const iovec> pieces() {
    count_ = 0;
    add(header_, 0);
    add(meta(), kFrameHeaderBytes);
    const std::size_t chunk_begin = crcs_.empty() ? 0 : (crcs_.size() - 1) * kChunkBytes;
    std::size_t chunk_end = std::min(chunk_begin + kChunkBytes, payload().size());
    if (crcs_.empty() || position_ >= payload_begin() + chunk_end) {
      if (crcs_.size() < chunk_count(payload().size())) {
        const std::size_t begin = crcs_.size() * kChunkBytes;
        chunk_end = std::min(begin + kChunkBytes, payload().size());
        crcs_.push_back(crc32c(payload().subspan(begin, chunk_end - begin)));
      }
    }
    add(payload().first(chunk_end), payload_begin());
    if (chunk_end == payload().size()) {
      add(std::as_bytes(std::span(crcs_)), trailer_begin_);
    }
    return {pieces_.data(), count_};
  }

  /// How many bytes before the position belong to the payload.
  [[nodiscard]] std::size_t payload_written() const {
    return std::clamp(position_, payload_begin(), trailer_begin_) - payload_begin();
  }

 private:
  [[nodiscard]] ByteSpan meta() const {
    return frame_.message ? ByteSpan(frame_.message->meta) : ByteSpan();
  }
  [[nodiscard]] ByteSpan payload() const {
    return frame_.message ? frame_.message->payload : ByteSpan();
  }
  [[nodiscard]] std::size_t payload_begin() const { return kFrameHeaderBytes + meta().size(); }

  // What of `bytes`, which start at `begin` in the frame, lies at or after the position.
  void add(ByteSpan bytes, std::size_t begin) {
    if (position_ > begin) bytes = bytes.subspan(std::min(position_ - begin, bytes.size()));
    if (bytes.empty()) return;
    pieces_[count_++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }

  OutgoingFrame frame_;
  HeaderBytes header_{};
  std::vector<std::uint32_t> crcs_;
  std::size_t position_ = 0;
  std::size_t trailer_begin_ = 0;
  std::size_t end_ = 0;
  std::array<iovec, 4> pieces_{};
  std::size_t count_ = 0;
};

class StreamLink final : public Link {
 public:
  StreamLink(StreamPtr stream, const DecoderLimits& limits)
      : stream_(std::move(stream)), decoder_(limits), staging_(kStagingBytes) {
    last_heard_ = std::chrono::steady_clock::now();
  }

  bool write(OutgoingFrame frame) override {
    cursor_.start(std::move(frame));
    return finish_write();
  }

  bool finish_write() override {
    const std::size_t before = cursor_.payload_written();
    while (!cursor_.done()) {
      const Transfer transfer = stream_->write_some(cursor_.pieces());
      if (transfer.bytes == 0) {
        payload_sent_ += cursor_.payload_written() - before;
        pending_write_ = transfer.wait;
        return false;
      }
      cursor_.advance(transfer.bytes);
    }
    payload_sent_ += cursor_.payload_written() - before;
    cursor_.clear();
    pending_write_ = 0;
    return true;
  }

  void wait(Deadline until) override {
    if (more_to_read_) return;
    const auto events = static_cast<short>(read_event_ | pending_write_.load());
    pollfd watched[2] = {{stream_->fd(), events, 0}, {wake_.fd(), POLLIN, 0}};
    if (::poll(watched, 2, poll_timeout(until)) < 0 && errno != EINTR) {
      fail_errno(errno, "cannot wait for a socket");
    }
    if (watched[1].revents != 0) wake_.clear();
  }

  void read(std::vector<ReceivedFrame>& frames) override {
    more_to_read_ = true;
    for (int i = 0; i < kReadsPerTurn; ++i) {
      if (!read_once(frames)) {
        more_to_read_ = false;
        break;
      }
    }
    if (!more_to_read_ && !heard_) return;
    heard_ = false;
    last_heard_ = std::chrono::steady_clock::now();
  }

  void wake() override { wake_.signal(); }
  void shut() override { stream_->shut(); }
  Deadline last_heard() const override { return last_heard_; }
  LinkCounts counts() const override { return {payload_sent_, payload_received_}; }
  const std::string& peer() const override { return stream_->peer(); }

 private:
  // False when nothing more is there.
  bool read_once(std::vector<ReceivedFrame>& frames) {
    // At most a chunk at a time, so that its checksum finds it in the cache.
    std::span<std::byte> to = decoder_.want();
    const bool all = to.size() <= kChunkBytes;
    if (!all) to = to.first(kChunkBytes);
    const std::array<iovec, 2> pieces = {
        {{to.data(), to.size()}, {staging_.data(), staging_.size()}}};
    const Transfer transfer = stream_->read_some(std::span(pieces).first(all ? 2 : 1));
    if (transfer.bytes == 0) {
      read_event_ = transfer.wait;
      return false;
    }
    heard_ = true;
    const std::size_t in_place = std::min(transfer.bytes, to.size());
    accept(in_place, frames);
    ByteSpan staged = ByteSpan(staging_).first(transfer.bytes - in_place);
    while (!staged.empty()) {
      const std::span<std::byte> next = decoder_.want();
      const std::size_t count = std::min(next.size(), staged.size());
      std::copy_n(staged.begin(), count, next.begin());
      staged = staged.subspan(count);
      accept(count, frames);
    }
    return true;
  }

  void accept(std::size_t count, std::vector<ReceivedFrame>& frames) {
    if (!decoder_.got(count)) return;
    frames.push_back(decoder_.take());
    payload_received_ += frames.back().header.payload_bytes;
  }

  StreamPtr stream_;
  WakeEvent wake_;
  std::atomic<Deadline> last_heard_;
  std::atomic<std::uint64_t> payload_sent_ = 0;
  std::atomic<std::uint64_t> payload_received_ = 0;

  // Of the writing thread; the event that it waits for is for the I/O thread.
  FrameCursor cursor_;
  std::atomic<short> pending_write_ = 0;

  // Of the I/O thread.
  FrameDecoder decoder_;
  Bytes staging_;
  short read_event_ = POLLIN;
  bool more_to_read_ = false;
  bool heard_ = false;
};

}  // namespace

LinkPtr make_stream_link(StreamPtr stream, const DecoderLimits& limits) {
  return std::make_shared<StreamLink>(std::move(stream), limits);
}

}  // namespace harmonics
