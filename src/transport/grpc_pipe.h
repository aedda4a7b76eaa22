// One bidirectional gRPC call as two flows of bytes. Only the grpc_*.cc files include this.
//
// What one end writes is cut into gRPC messages as it is convenient; the other end reads the bytes
// of all messages in a row. So frames and greetings lie in a call as they lie in a TCP stream.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/error.h>

#include "link.h"
#include "stream.h"

namespace harmonics {

/// The most payload in one gRPC message. A large tensor travels in many, so that it is received,
/// checked and copied into place piece by piece, and a stranger can make gRPC hold no more.
inline constexpr std::size_t kGrpcPieceBytes = std::size_t{1} << 20;
/// The largest gRPC message that either side takes: a piece, its frame's head and checksums.
inline constexpr std::size_t kGrpcLargestMessage = kGrpcPieceBytes + (std::size_t{1} << 17);
/// An end takes no more to write while so many bytes wait for gRPC.
inline constexpr std::size_t kGrpcQueuedBytes = 2 * kGrpcPieceBytes;
/// So many messages may have come and wait to be read; gRPC holds the peer back then.
inline constexpr std::size_t kGrpcWaitingMessages = 4;
/// Small frames that have to wait for an earlier message gather into one of up to this size.
inline constexpr std::size_t kGrpcGatherBytes = std::size_t{64} << 10;

/// What is written in one go: `head`, then `payload`, which `owner` keeps alive, then `tail`.
struct GrpcPiece {
  Bytes head;
  std::shared_ptr<const OutgoingMessage> owner;
  ByteSpan payload;
  Bytes tail;
};

/// Threads: one at a time writes, one at a time reads and waits; the rest is for any thread. gRPC's
/// own threads call the `…_done` members. The two sides of a call derive from it.
class GrpcPipe {
 public:
  GrpcPipe() = default;
  virtual ~GrpcPipe() = default;
  GrpcPipe(const GrpcPipe&) = delete;
  GrpcPipe& operator=(const GrpcPipe&) = delete;

  [[nodiscard]] virtual const std::string& peer() const = 0;

  [[nodiscard]] bool has_room() const;
  /// Takes the piece over, whether there is room or not. When the call is over it goes nowhere, as
  /// anything that is under way: it is for who reads to say so, after what came before the end.
  void write(GrpcPiece piece);

  /// Copies what has come to `to`: how many bytes. 0: nothing is there. An Error once the call is
  /// over and everything that came was read.
  std::size_t read(std::span<std::byte> to);
  /// Returns when there is something to read, when the call is over, when there is room if `room`
  /// is awaited, after `wake`, or at `until`.
  void wait(Deadline until, bool room);
  void wake();
  /// Returns after `wake`, or at `until`.
  void doze(Deadline until);
  [[nodiscard]] Deadline last_heard() const;

  /// Readable while there may be something to read; until `stop_signalling`, for greetings.
  [[nodiscard]] const WakeEvent& arrivals() const { return *arrivals_; }
  void clear_arrivals();
  void stop_signalling();

  /// Ends the call at once.
  void shut();
  /// As Link::part says; then ends the call.
  void part(Deadline until);
  /// After a greeting that came to nothing: the calling side just goes, the other one has said why
  /// and parts.
  void leave(Deadline until);

 protected:
  using Lock = std::unique_lock<std::mutex>;

  // Of the side, under the mutex; none of them calls back before it returns.
  virtual void start_read(grpc::ByteBuffer* into) = 0;
  virtual void start_write(const grpc::ByteBuffer* from) = 0;
  /// Nothing is started any more and no write is under way: `done` may come. Called once.
  virtual void finish() = 0;
  /// Whatever is under way shall end.
  virtual void cancel() = 0;
  /// Whether this is the side that made the call. It learns with `done` why a call is over, and
  /// leaves it to the other side to finish a call in peace.
  [[nodiscard]] virtual bool calls() const = 0;
  /// The calling side: all is written. Called once.
  virtual void end_writes() {}

  // For the side's callbacks.
  void begin();
  void read_done(bool good);
  void write_done(bool good);
  void cancelled();
  void done(const Error& reason);

 private:
  void call_is_over();
  void break_off(const Error& reason);
  void write_next();
  void read_next();
  void finish_when_idle();
  std::size_t take(std::span<std::byte> to);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable woken_doze_;

  bool reading_ = false;
  std::deque<grpc::ByteBuffer> inbox_;
  grpc::ByteBuffer incoming_;
  bool dropping_ = false;  // what comes is of no interest any more
  Deadline last_heard_ = std::chrono::steady_clock::now();

  bool writing_ = false;
  std::deque<GrpcPiece> outbox_;
  grpc::ByteBuffer outgoing_;
  std::size_t outgoing_bytes_ = 0;
  std::uint32_t messages_written_ = 0;
  std::size_t queued_bytes_ = 0;

  std::optional<Error> broken_;
  bool ending_ = false;    // nothing may be started any more
  bool finished_ = false;  // finish() was called
  bool done_ = false;
  bool awake_ = false;
  bool doze_awake_ = false;
  std::optional<WakeEvent> arrivals_{std::in_place};

  // Of who reads.
  std::uint32_t messages_read_ = 0;
  std::vector<grpc::Slice> slices_;
  std::size_t slice_ = 0;
  std::size_t offset_ = 0;
};

using GrpcPipePtr = std::shared_ptr<GrpcPipe>;

/// A pipe as a stream, for the greeting.
[[nodiscard]] StreamPtr make_grpc_stream(GrpcPipePtr pipe);
/// The link on a stream of make_grpc_stream after its greeting.
[[nodiscard]] LinkPtr make_grpc_link(StreamPtr stream, const DecoderLimits& limits);

}  // namespace harmonics
