// One live connection of a boundary, in terms of whole frames.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <harmonics/transport/transport.h>

#include "frame/frame_decoder.h"

namespace harmonics::inline in_transport {

/// A frame that is ready to be written: `header` is final, `message` is null for a frame without
/// payload.
struct OutgoingFrame {
  FrameHeader header;
  std::shared_ptr<const OutgoingMessage> message;
};

/// What a connection has carried.
struct ConnectionCounts {
  std::uint64_t socket_payload_sent = 0;
  std::uint64_t socket_payload_received = 0;
};

/// Threads: one thread at a time writes (`write`, `finish_write`), one at a time works (`wait`,
/// `read`), one dozes; the rest is for any thread. Nothing but `wait`, `doze` and `part` waits. Any
/// Error means that the connection is of no use any more.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Begins to write a frame. True when all of it is out. False when the rest waits for room: then
  /// `wait` returns once there is some, and `finish_write` must have said true before the next
  /// `write`.
  virtual bool write(OutgoingFrame frame) = 0;
  virtual bool finish_write() = 0;
  /// Whether small frames of a stream wait for more of their kind. Then somebody has to `push`
  /// within a moment, unless another frame is written.
  [[nodiscard]] virtual bool holds_back() const { return false; }
  virtual void push() {}

  /// Returns when there may be something to read, or room for an unfinished write, after `wake`, or
  /// at `until`.
  virtual void wait(Deadline until) = 0;
  /// Returns after `wake`, or at `until`.
  virtual void doze(Deadline until) = 0;
  /// Appends the frames that have come.
  virtual void read(std::vector<ReceivedFrame>& frames) = 0;

  virtual void wake() = 0;
  /// Ends the connection for both sides.
  virtual void shut() = 0;
  /// Nothing more is written: waits until the other end has what was, or has ended the connection,
  /// or `until`. Drops what still comes. Only `shut` may follow.
  virtual void part(Deadline /*until*/) {}

  /// When the other end last gave a sign of life.
  [[nodiscard]] virtual Deadline last_heard() const = 0;
  [[nodiscard]] virtual ConnectionCounts counts() const = 0;
  [[nodiscard]] virtual const std::string& peer() const = 0;
};

using ConnectionPtr = std::shared_ptr<Connection>;

}  // namespace harmonics::inline in_transport
