// One bidirectional gRPC call as a pipe. Only the grpc_*.cc files include this.
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

#include "pipe.h"

namespace harmonics::inline in_transport {

/// The largest gRPC message that either side takes: a piece, its frame's head and checksums.
inline constexpr std::size_t kGrpcLargestMessage = kPieceBytes + (std::size_t{1} << 17);
/// Small frames that have to wait for an earlier message gather into one of up to this size.
inline constexpr std::size_t kGrpcGatherBytes = std::size_t{64} << 10;

/// gRPC's own threads call the `…_done` members. The two sides of a call derive from it.
class GrpcPipe : public Pipe {
 public:
  [[nodiscard]] bool has_room() const override;
  void write(Piece piece) override;
  std::size_t read(std::span<std::byte> to) override;
  void wait(Deadline until, bool room) override;
  void wake() override;
  void doze(Deadline until) override;
  [[nodiscard]] Deadline last_heard() const override;
  [[nodiscard]] int arrivals() const override { return arrivals_->fd(); }
  void clear_arrivals() override;
  void stop_signalling() override;
  void shut() override;
  void part(Deadline until) override;
  void leave(Deadline until) override;

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
  std::deque<Piece> outbox_;
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

}  // namespace harmonics::inline in_transport
