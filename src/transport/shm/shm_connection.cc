#include "shm_connection.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>

#include "shm_blocks.h"
#include "shm_ring.h"

namespace harmonics::inline in_transport {
namespace {

constexpr std::uint64_t kControlMagic = 0x324d48534d524148;  // "HARMSHM2"

// Before every frame in a ring.
struct Record {
  std::uint32_t in_block = 0;  // 1: the payload is in `block`, 0: it follows the meta
  BlockRef block;
  std::uint32_t reserved = 0;
};

// The head of the shared memory. Direction 0 leads from the listening to the connecting end.
struct Control {
  std::uint64_t magic;
  std::array<ShmRingState, 2> rings;
  std::array<BlockWords, 2> blocks;
};

// Room for all that the window allows to be in flight, so that a message never finds the ring full.
std::size_t ring_bytes(const Window& window) {
  constexpr std::size_t kLongest =
      sizeof(Record) + kFrameHeaderBytes + kMaxMetaBytes + kFrameAlignment + kInlinePayload;
  return std::bit_ceil((std::size_t{window.messages} + 2) * kLongest);
}

// Where everything lies, the same at both ends.
struct Layout {
  Layout(const Window& to_connecting, const Window& to_listening)
      : sizes{ring_bytes(to_connecting), ring_bytes(to_listening)} {}

  [[nodiscard]] std::size_t begin(std::size_t direction) const {
    const std::size_t head = (sizeof(Control) + 4095) / 4096 * 4096;
    return direction == 0 ? head : head + sizes[0];
  }
  [[nodiscard]] std::size_t total() const { return begin(1) + sizes[1]; }
  [[nodiscard]] std::span<std::byte> ring(const ShmRegion& region, std::size_t direction) const {
    return {region.data() + begin(direction), sizes[direction]};
  }

  std::array<std::size_t, 2> sizes;
};

class ShmConnection final : public Connection {
 public:
  struct Parts {
    StreamPtr stream;
    std::shared_ptr<ShmRegion> region;
    Layout layout;
    bool listening;
    std::uint64_t max_message_size;
    Window sending;
    Window receiving;
  };

  explicit ShmConnection(Parts parts)
      : stream_(std::move(parts.stream)),
        region_(std::move(parts.region)),
        control_(*reinterpret_cast<Control*>(region_->data())),
        max_tensor_(parts.max_message_size),
        writer_(control_.rings[parts.listening ? 0 : 1],
                parts.layout.ring(*region_, parts.listening ? 0 : 1)),
        reader_(control_.rings[parts.listening ? 1 : 0],
                parts.layout.ring(*region_, parts.listening ? 1 : 0)),
        sender_(region_, control_.blocks[parts.listening ? 0 : 1], stream_->fd(),
                {parts.sending.bytes, max_tensor_}),
        receiver_(region_, control_.blocks[parts.listening ? 1 : 0], stream_->fd(),
                  {parts.receiving.bytes, max_tensor_}) {}

  bool write(OutgoingFrame frame) override {
    Record record;
    const ByteSpan meta = frame.message ? ByteSpan(frame.message->meta) : ByteSpan();
    const ByteSpan payload = frame.message ? frame.message->payload : ByteSpan();
    record.in_block = payload.size() > kInlinePayload ? 1 : 0;
    const std::size_t inlined = record.in_block == 1 ? 0 : payload.size();
    const std::size_t needed = sizeof(record) + kFrameHeaderBytes + meta.size() + inlined;
    if (writer_.room() < needed) {
      // Progress is cumulative: the next one says it too. A message always has room.
      if (frame.header.type == FrameType::kProgress) return true;
      HARMONICS_CHECK(writer_.room() >= needed, "a message of {} bytes found the ring full",
                      needed);
    }
    if (record.in_block == 1) record.block = sender_.fill(payload);
    writer_.put(std::as_bytes(std::span(&record, 1)));
    writer_.put(encode_header(frame.header));
    writer_.put(meta);
    writer_.put(payload.first(inlined));
    writer_.publish();
    return true;
  }

  bool finish_write() override { return true; }

  void wait(Deadline until) override { reader_.wait(until); }

  void doze(Deadline until) override {
    if (wait_for(wake_doze_.fd(), POLLIN, until, nullptr)) wake_doze_.clear();
  }

  void read(std::vector<ReceivedFrame>& frames) override {
    const std::size_t before = frames.size();
    while (reader_.available() > 0) {
      frames.push_back(read_frame());
      reader_.release();
    }
    // Nothing came although we woke: a beat, or the other process left. Its socket knows.
    if (frames.size() > before) return;
    receiver_.read_notices();
    if (reader_.writer_gone()) fail(ErrorCode::kUnavailable, "the other process closed its end");
  }

  void wake() override {
    reader_.wake();
    wake_doze_.signal();
  }
  void shut() override {
    stream_->shut();
    writer_.hang_up();
  }
  void part(Deadline until) override {
    // The other end reads the ring and hangs up, unless it is parting as well.
    while (std::chrono::steady_clock::now() < until) {
      std::vector<ReceivedFrame> dropped;
      read(dropped);
      for (const ReceivedFrame& frame : dropped) {
        if (frame.header.type >= FrameType::kAbandon) return;
      }
      wait(until);
    }
  }
  Deadline last_heard() const override { return std::chrono::steady_clock::now(); }
  ConnectionCounts counts() const override { return {}; }
  const std::string& peer() const override { return peer_; }

 private:
  void take(std::span<std::byte> to) {
    if (reader_.available() < to.size()) {
      fail(ErrorCode::kDataLoss, "the peer wrote half a frame into the ring");
    }
    reader_.take(to);
  }

  ReceivedFrame read_frame() {
    Record record;
    HeaderBytes head;
    take(std::as_writable_bytes(std::span(&record, 1)));
    take(head);
    ReceivedFrame frame;
    frame.header = decode_header(head);
    const FrameHeader& header = frame.header;
    // Copied before it is checked: the peer could still change what lies in the ring.
    Bytes meta(header.meta_bytes + meta_padding(header.meta_bytes));
    take(meta);
    if (header.type == FrameType::kMessage) {
      read_message(record, ByteSpan(meta).first(header.meta_bytes), frame);
    }
    return frame;
  }

  void read_message(const Record& record, ByteSpan meta_bytes, ReceivedFrame& frame) {
    MessageMeta meta = decode_meta(meta_bytes);
    const FrameHeader& header = frame.header;
    checked_tensor_bytes(header, meta, max_tensor_);
    BufferPtr payload;
    if (record.in_block == 1) {
      payload = receiver_.open(record.block, header.payload_bytes);
    } else {
      if (header.payload_bytes > kInlinePayload) {
        fail(ErrorCode::kDataLoss, "a payload of {} bytes in the ring", header.payload_bytes);
      }
      payload = BufferPool::shared().take(header.payload_bytes);
      take({payload->data(), payload->size()});
    }
    frame.message = assemble_message(header, std::move(meta), std::move(payload));
  }

  StreamPtr stream_;
  std::shared_ptr<ShmRegion> region_;
  Control& control_;
  const std::uint64_t max_tensor_;
  const std::string peer_ = "a process of this host";
  WakeEvent wake_doze_;
  ShmRingWriter writer_;
  ShmRingReader reader_;
  BlockSender sender_;
  BlockReceiver receiver_;
};

void check_same_user(const Stream& stream) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(stream.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      peer.uid != ::geteuid()) {
    fail(ErrorCode::kPermissionDenied,
         "shared memory connects processes of one user; the peer runs as user {}", peer.uid);
  }
}

std::shared_ptr<ShmRegion> make_region(int socket, const Layout& layout, Deadline deadline) {
  auto region = ShmRegion::create(layout.total());
  reinterpret_cast<Control*>(region->data())->magic = kControlMagic;
  send_notice(socket, {0, 0, layout.total()}, region->fd(), deadline);
  return region;
}

std::shared_ptr<ShmRegion> take_region(int socket, const Layout& layout, Deadline deadline) {
  for (;;) {
    if (std::optional<ReceivedNotice> received = receive_notice(socket)) {
      auto region = ShmRegion::map(std::move(received->file), layout.total());
      if (reinterpret_cast<const Control*>(region->data())->magic != kControlMagic) {
        fail(ErrorCode::kDataLoss, "the peer sent shared memory that is not ours");
      }
      return region;
    }
    if (!wait_for(socket, POLLIN, deadline, nullptr)) {
      fail(ErrorCode::kDeadlineExceeded, "the peer sent no shared memory in time");
    }
  }
}

}  // namespace

ConnectionPtr make_shm_connection(StreamPtr stream, const Agreement& agreement, Deadline deadline) {
  check_same_user(*stream);
  const Window& ours = agreement.ours.window;
  const Window& theirs = agreement.theirs.window;
  if (ours.messages > kMaxShmMessages || theirs.messages > kMaxShmMessages) {
    fail(ErrorCode::kInvalidArgument, "a window of {} messages over shared memory, at most {}",
         std::max(ours.messages, theirs.messages), kMaxShmMessages);
  }
  const Layout layout = agreement.listening ? Layout(theirs, ours) : Layout(ours, theirs);
  auto region = agreement.listening ? make_region(stream->fd(), layout, deadline)
                                    : take_region(stream->fd(), layout, deadline);
  return std::make_shared<ShmConnection>(
      ShmConnection::Parts{std::move(stream), std::move(region), layout, agreement.listening,
                           agreement.max_message_size(), theirs, ours});
}

}  // namespace harmonics::inline in_transport
