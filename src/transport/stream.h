// A connected byte stream that never blocks: a plain socket, or TLS on one.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <harmonics/base/bytes.h>

#include "socket.h"

namespace harmonics::inline in_transport {

/// What came of one attempt to read or write.
struct Transfer {
  std::size_t bytes = 0;
  /// When nothing moved: the poll event to wait for first.
  short wait = 0;
};

/// One thread may read while another writes. A stream that ended or broke is an Error
/// (kUnavailable).
class Stream {
 public:
  virtual ~Stream() = default;

  /// Fills the pieces in order, as far as bytes are there.
  virtual Transfer read_some(std::span<const iovec> pieces) = 0;
  /// Writes from the pieces in order, as far as there is room. With `more`, the bytes may wait for
  /// those of the next call, or for `push`.
  virtual Transfer write_some(std::span<const iovec> pieces, bool more = false) = 0;
  virtual void push() {}

  /// The reader knows that at least this many bytes are still to come (0: nothing is known). A wait
  /// for POLLIN may then take them together instead of waking for each segment.
  virtual void expect(std::size_t /*bytes*/) {}

  [[nodiscard]] virtual int fd() const = 0;
  /// The other end, for error texts.
  [[nodiscard]] virtual const std::string& peer() const = 0;
  /// Ends the connection: whoever reads or writes gets an Error soon. Any thread.
  virtual void shut() = 0;
  /// As Connection::part says.
  virtual void part(Deadline until) = 0;
};

using StreamPtr = std::unique_ptr<Stream>;

/// Says that nothing more is written on a connected socket and drops what comes until the other end
/// does the same, or `until`. A socket that is closed with bytes unread resets the connection, and
/// the other end may lose what was written last.
void part_socket(int fd, Deadline until);

[[nodiscard]] StreamPtr make_plain_stream(Descriptor socket, std::string peer);

/// Writes everything; for greetings. Errors as wait_for, kDeadlineExceeded at the deadline.
void write_all(Stream& stream, ByteSpan bytes, Deadline deadline, const WakeEvent* cancel);

}  // namespace harmonics::inline in_transport
