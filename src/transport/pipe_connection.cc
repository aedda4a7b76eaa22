// Frames and greetings over a pipe.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include <harmonics/transport/crc32c.h>

#include "pipe.h"
#include "tcp/stream_connection.h"

namespace harmonics::inline in_transport {
namespace {

// Payloads up to this are copied behind their header, so that many fit into one message.
constexpr std::size_t kSmallPayload = std::size_t{8} << 10;
// How long a refusal may take to get through to whom it is meant for.
constexpr Nanoseconds kLeaveTime = std::chrono::seconds(1);

// For greetings: writes are taken over whole, they are short and few.
class PipeStream final : public Stream {
 public:
  explicit PipeStream(PipePtr pipe) : pipe_(std::move(pipe)) {}
  ~PipeStream() override {
    if (pipe_) pipe_->leave(deadline_in(kLeaveTime));
  }

  Transfer read_some(std::span<const iovec> pieces) override {
    pipe_->clear_arrivals();
    const std::span to(static_cast<std::byte*>(pieces.front().iov_base), pieces.front().iov_len);
    return {pipe_->read(to), POLLIN};
  }
  Transfer write_some(std::span<const iovec> pieces, bool /*more*/) override {
    Piece piece;
    for (const iovec& from : pieces) {
      const auto* bytes = static_cast<const std::byte*>(from.iov_base);
      piece.head.insert(piece.head.end(), bytes, bytes + from.iov_len);
    }
    const std::size_t size = piece.head.size();
    pipe_->write(std::move(piece));
    return {size, 0};
  }
  int fd() const override { return pipe_->arrivals(); }
  const std::string& peer() const override { return pipe_->peer(); }
  void shut() override { pipe_->shut(); }
  void part(Deadline until) override { pipe_->part(until); }

  PipePtr release() { return std::move(pipe_); }

 private:
  PipePtr pipe_;
};

// What of a frame is not written yet, piece by piece.
class PieceCursor {
 public:
  void start(OutgoingFrame frame) {
    frame_ = std::move(frame);
    written_ = 0;
    done_ = false;
    crcs_.clear();
  }
  [[nodiscard]] bool done() const { return done_; }
  /// Bytes of the payload so far.
  [[nodiscard]] std::size_t written() const { return written_; }

  Piece next() {
    Piece piece;
    const ByteSpan all = frame_.message ? frame_.message->payload : ByteSpan();
    if (written_ == 0) {
      const HeaderBytes header = encode_header(frame_.header);
      piece.head.assign(header.begin(), header.end());
      if (frame_.message) append(piece.head, frame_.message->meta);
    }
    const ByteSpan payload = all.subspan(written_, std::min(kPieceBytes, all.size() - written_));
    for (std::size_t at = 0; at < payload.size(); at += kChunkBytes) {
      crcs_.push_back(crc32c(payload.subspan(at, std::min(kChunkBytes, payload.size() - at))));
    }
    written_ += payload.size();
    done_ = written_ == all.size();
    const ByteSpan trailer = done_ ? std::as_bytes(std::span(crcs_)) : ByteSpan();
    if (all.size() <= kSmallPayload) {
      append(piece.head, payload);
      append(piece.head, trailer);
    } else {
      piece.owner = frame_.message;
      piece.payload = payload;
      append(piece.tail, trailer);
    }
    if (done_) frame_ = {};
    return piece;
  }

 private:
  static_assert(kPieceBytes % kChunkBytes == 0);
  static void append(Bytes& to, ByteSpan from) { to.insert(to.end(), from.begin(), from.end()); }

  OutgoingFrame frame_;
  std::size_t written_ = 0;
  std::vector<std::uint32_t> crcs_;
  bool done_ = true;
};

class PipeConnection final : public Connection {
 public:
  PipeConnection(PipePtr pipe, const DecoderLimits& limits)
      : pipe_(std::move(pipe)), decoder_(limits) {}
  ~PipeConnection() override { pipe_->shut(); }

  bool write(OutgoingFrame frame) override {
    cursor_.start(std::move(frame));
    return finish_write();
  }
  bool finish_write() override {
    while (!cursor_.done()) {
      if (!pipe_->has_room()) {
        awaits_room_ = true;
        return false;
      }
      const std::size_t before = cursor_.written();
      Piece piece = cursor_.next();
      payload_sent_ += cursor_.written() - before;
      pipe_->write(std::move(piece));
    }
    awaits_room_ = false;
    return true;
  }

  void wait(Deadline until) override { pipe_->wait(until, awaits_room_); }
  void doze(Deadline until) override { pipe_->doze(until); }

  void read(std::vector<ReceivedFrame>& frames) override {
    std::size_t total = 0;
    while (total < kPieceBytes) {
      std::span<std::byte> to = decoder_.want();
      const std::size_t count = pipe_->read(to);
      if (count == 0) return;
      total += count;
      if (!decoder_.got(count)) continue;
      frames.push_back(decoder_.take());
      if (frames.back().header.type == FrameType::kMessage) {
        payload_received_ += frames.back().header.payload_bytes;
      }
    }
  }

  void wake() override { pipe_->wake(); }
  void shut() override { pipe_->shut(); }
  void part(Deadline until) override { pipe_->part(until); }
  Deadline last_heard() const override { return pipe_->last_heard(); }
  ConnectionCounts counts() const override { return {payload_sent_, payload_received_}; }
  const std::string& peer() const override { return pipe_->peer(); }

 private:
  const PipePtr pipe_;
  std::atomic<std::uint64_t> payload_sent_ = 0;
  std::atomic<std::uint64_t> payload_received_ = 0;
  PieceCursor cursor_;  // of who writes
  std::atomic<bool> awaits_room_ = false;
  FrameDecoder decoder_;  // of who works
};

}  // namespace

StreamPtr make_pipe_stream(PipePtr pipe) { return std::make_unique<PipeStream>(std::move(pipe)); }

ConnectionPtr make_pipe_connection(StreamPtr stream, const DecoderLimits& limits) {
  auto* const on_pipe = dynamic_cast<PipeStream*>(stream.get());
  if (on_pipe == nullptr) return make_stream_connection(std::move(stream), limits);
  PipePtr pipe = on_pipe->release();
  pipe->stop_signalling();
  return std::make_shared<PipeConnection>(std::move(pipe), limits);
}

}  // namespace harmonics::inline in_transport
