#include "stream_connection.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/transport/crc32c.h>

#include "gather.h"

namespace harmonics::inline in_transport {
namespace {

// Small frames come many at a time through this much memory; larger payloads bypass it.
constexpr std::size_t kStagingBytes = std::size_t{64} << 10;
// After a payload larger than that, so much: the end of its frame, and the head of the next one,
// whose payload will be received into place rather than copied.
constexpr std::size_t kStagingBetweenLarge = std::size_t{2} << 10;
// A thread hands on what it has read after a chunk, while that is still in the cache. After this
// many bytes it looks after other things for a moment, even in the middle of a message.
constexpr std::size_t kMostPerTurn = 16 * kChunkBytes;

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

class StreamConnection final : public Connection {
 public:
  StreamConnection(StreamPtr stream, const DecoderLimits& limits)
      : stream_(std::move(stream)), decoder_(limits), staging_(kStagingBytes) {
    last_heard_ = std::chrono::steady_clock::now();
  }

  bool write(OutgoingFrame frame) override {
    more_ = false;
    if (frame.message) {
      ++messages_sent_;
      const std::size_t bytes = frame.message->payload.size() + frame.message->meta.size();
      out_run_.moved(bytes, messages_received_, std::chrono::steady_clock::now());
      more_ = out_run_.wanted() && (held_bytes_ += bytes) < Gather::kBytes;
    }
    if (!more_) held_bytes_ = 0;
    cursor_.start(std::move(frame));
    return finish_write();
  }

  bool holds_back() const override { return held_bytes_ > 0; }
  void push() override {
    if (held_bytes_.exchange(0) > 0) stream_->push();
  }

  bool finish_write() override {
    const std::size_t before = cursor_.payload_written();
    while (!cursor_.done()) {
      const Transfer transfer = stream_->write_some(cursor_.pieces(), more_);
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
    if (in_run_.wanted() && pending_write_ == 0) {
      stream_->expect(Gather::kBytes);
      if (poll_until(std::min(until, deadline_in(Gather::kTime)))) {
        in_run_.paid();
        return;
      }
      in_run_.wasted();
    }
    stream_->expect(decoder_.needs());
    (void)poll_until(until);
  }

  void doze(Deadline until) override {
    if (wait_for(wake_doze_.fd(), POLLIN, until, nullptr)) wake_doze_.clear();
  }

  void read(std::vector<ReceivedFrame>& frames) override {
    std::size_t bytes = 0;
    do {
      more_to_read_ = read_once(frames, bytes);
    } while (more_to_read_ && bytes < (frames.empty() ? kMostPerTurn : kChunkBytes));
    if (bytes == 0) return;
    const Deadline now = std::chrono::steady_clock::now();
    last_heard_ = now;
    in_run_.moved(bytes, messages_sent_, now);
  }

  void wake() override {
    wake_.signal();
    wake_doze_.signal();
  }
  void shut() override { stream_->shut(); }
  void part(Deadline until) override {
    push();
    stream_->part(until);
  }
  Deadline last_heard() const override { return last_heard_; }
  ConnectionCounts counts() const override { return {payload_sent_, payload_received_}; }
  const std::string& peer() const override { return stream_->peer(); }

 private:
  // False when nothing happened until then.
  bool poll_until(Deadline until) {
    const auto events = static_cast<short>(read_event_ | pending_write_.load());
    pollfd watched[2] = {{stream_->fd(), events, 0}, {wake_.fd(), POLLIN, 0}};
    const auto left =
        std::max<Nanoseconds>(until - std::chrono::steady_clock::now(), Nanoseconds(0));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout = {seconds.count(), (left - seconds).count()};
    const int count = ::ppoll(watched, 2, &timeout, nullptr);
    if (count < 0 && errno != EINTR) fail_errno(errno, "cannot wait for a socket");
    if (watched[1].revents != 0) wake_.clear();
    return count != 0;
  }

  // Adds to `bytes` what it read. False when nothing more was there.
  bool read_once(std::vector<ReceivedFrame>& frames, std::size_t& bytes) {
    // At most a chunk at a time, so that its checksum finds it in the cache.
    std::span<std::byte> to = decoder_.want();
    const bool all = to.size() <= kChunkBytes;
    if (!all) to = to.first(kChunkBytes);
    const std::size_t staging = large_payloads_ ? kStagingBetweenLarge : kStagingBytes;
    const std::array<iovec, 2> pieces = {{{to.data(), to.size()}, {staging_.data(), staging}}};
    const Transfer transfer = stream_->read_some(std::span(pieces).first(all ? 2 : 1));
    if (transfer.bytes == 0) {
      read_event_ = transfer.wait;
      return false;
    }
    bytes += transfer.bytes;
    const std::size_t asked = to.size() + (all ? staging : 0);
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
    return transfer.bytes == asked;
  }

  void accept(std::size_t count, std::vector<ReceivedFrame>& frames) {
    if (!decoder_.got(count)) return;
    frames.push_back(decoder_.take());
    if (frames.back().header.type != FrameType::kMessage) return;
    ++messages_received_;
    const std::uint64_t bytes = frames.back().header.payload_bytes;
    payload_received_ += bytes;
    large_payloads_ = bytes > kStagingBytes;
  }

  StreamPtr stream_;
  WakeEvent wake_;  // of who works
  WakeEvent wake_doze_;
  std::atomic<Deadline> last_heard_;
  std::atomic<std::uint64_t> payload_sent_ = 0;
  std::atomic<std::uint64_t> payload_received_ = 0;
  std::atomic<std::uint64_t> messages_sent_ = 0;
  std::atomic<std::uint64_t> messages_received_ = 0;
  std::atomic<std::size_t> held_bytes_ = 0;

  // Of who writes; the event that it waits for is for who works.
  FrameCursor cursor_;
  Gather out_run_;
  bool more_ = false;
  std::atomic<short> pending_write_ = 0;

  // Of who works.
  FrameDecoder decoder_;
  Bytes staging_;
  short read_event_ = POLLIN;
  bool more_to_read_ = false;
  bool large_payloads_ = false;  // the last one was
  Gather in_run_;
};

}  // namespace

ConnectionPtr make_stream_connection(StreamPtr stream, const DecoderLimits& limits) {
  return std::make_shared<StreamConnection>(std::move(stream), limits);
}

}  // namespace harmonics::inline in_transport
