// A call of a foreign protocol as two flows of bytes, and frames and greetings over it.
//
// What one end writes is cut into messages of the protocol as it is convenient; the other end reads
// the bytes of all messages in a row. So frames lie in a call as they lie in a TCP stream.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "connection.h"
#include "stream.h"

namespace harmonics::inline in_transport {

/// The most payload in one message of the protocol. A large tensor travels in many, so that it is
/// received, checked and copied into place piece by piece.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
/// An end takes no more to write while so many bytes wait for the protocol.
inline constexpr std::size_t kPipeQueuedBytes = 2 * kPieceBytes;
/// So many messages may have come and wait to be read; the peer is held back then.
inline constexpr std::size_t kPipeWaitingMessages = 4;

/// What is written in one go: `head`, then `payload`, which `owner` keeps alive, then `tail`.
struct Piece {
  Bytes head;
  std::shared_ptr<const OutgoingMessage> owner;
  ByteSpan payload;
  Bytes tail;

  [[nodiscard]] std::size_t size() const { return head.size() + payload.size() + tail.size(); }
};

/// Threads: one at a time writes, one at a time reads and waits; the rest is for any thread.
class Pipe {
 public:
  Pipe() = default;
  virtual ~Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] virtual const std::string& peer() const = 0;

  [[nodiscard]] virtual bool has_room() const = 0;
  /// Takes the piece over, whether there is room or not. When the call is over it goes nowhere, as
  /// anything that is under way: it is for who reads to say so, after what came before the end.
  virtual void write(Piece piece) = 0;

  /// Copies what has come to `to`: how many bytes. 0: nothing is there. An Error once the call is
  /// over and everything that came was read.
  virtual std::size_t read(std::span<std::byte> to) = 0;
  /// Returns when there is something to read, when the call is over, when there is room if `room`
  /// is awaited, after `wake`, or at `until`.
  virtual void wait(Deadline until, bool room) = 0;
  virtual void wake() = 0;
  /// Returns after `wake`, or at `until`.
  virtual void doze(Deadline until) = 0;
  [[nodiscard]] virtual Deadline last_heard() const = 0;

  /// Readable while there may be something to read; until `stop_signalling`, for greetings.
  [[nodiscard]] virtual int arrivals() const = 0;
  virtual void clear_arrivals() = 0;
  virtual void stop_signalling() = 0;

  /// Ends the call at once.
  virtual void shut() = 0;
  /// As Connection::part says; then ends the call.
  virtual void part(Deadline until) = 0;
  /// After a greeting that came to nothing: the calling side just goes, the other one has said why
  /// and parts.
  virtual void leave(Deadline until) = 0;
};

using PipePtr = std::shared_ptr<Pipe>;

/// A pipe as a stream, for the greeting.
[[nodiscard]] StreamPtr make_pipe_stream(PipePtr pipe);
/// The connection on a stream of make_pipe_stream after its greeting; on any other stream the
/// ordinary connection of streams.
[[nodiscard]] ConnectionPtr make_pipe_connection(StreamPtr stream, const DecoderLimits& limits);

}  // namespace harmonics::inline in_transport
