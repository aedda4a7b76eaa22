// One Flight exchange (DoExchange) as a pipe. Only the flight_*.cc files include this.
//
// Each Flight message carries bytes in two places that are read one after the other: its
// application metadata (first the number of the message in the call, which belongs to no frame) and
// the uint8 column of its record batch, which points at a tensor. Flight's calls block, so each
// side of an exchange has a thread that reads and one that writes.
#pragma once

#include <arrow/flight/client.h>
#include <arrow/flight/server.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <harmonics/base/error.h>

#include "pipe.h"

namespace harmonics::inline in_transport {

/// The command of the descriptor with which an end of ours asks for an exchange.
inline constexpr const char* kFlightCommand = "harmonics link 1";

/// What Flight says, as an Error of ours.
[[nodiscard]] Error flight_error(const arrow::Status& status, const std::string& peer);

/// What both sides share; each derives from it and brings the calls of Flight.
class FlightPipe : public Pipe {
 public:
  explicit FlightPipe(std::string peer) : peer_(std::move(peer)) {}

  const std::string& peer() const override { return peer_; }
  bool has_room() const override;
  void write(Piece piece) override;
  std::size_t read(std::span<std::byte> to) override;
  void wait(Deadline until, bool room) override;
  void wake() override;
  void doze(Deadline until) override;
  Deadline last_heard() const override;
  int arrivals() const override { return arrivals_->fd(); }
  void clear_arrivals() override;
  void stop_signalling() override;
  void shut() override;
  void part(Deadline until) override;

 protected:
  using Lock = std::unique_lock<std::mutex>;
  using Reader = arrow::flight::MetadataRecordBatchReader;
  using Writer = arrow::flight::MetadataRecordBatchWriter;

  /// Under the mutex: makes the call end soon. May be called more than once.
  virtual void hang_up() = 0;

  /// Reads until the call is over; why it is.
  Error read_all(Reader& reader);
  /// Writes what comes, until `done`.
  void write_all(Writer& writer);
  /// The call is over and nothing of Flight is used any more.
  void done(const Error& reason);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool end_writes_ = false;  // asks the other end to go, once everything is written

 private:
  struct Arrived {
    std::shared_ptr<arrow::Buffer> metadata;
    std::shared_ptr<arrow::RecordBatch> batch;
  };

  void break_off(const Error& reason);
  arrow::Status write_piece(Writer& writer, Piece piece);
  [[nodiscard]] std::shared_ptr<arrow::Buffer> numbered(Bytes bytes);

  const std::string peer_;
  std::condition_variable woken_doze_;
  std::deque<Arrived> inbox_;
  bool dropping_ = false;
  Deadline last_heard_ = std::chrono::steady_clock::now();
  std::deque<Piece> outbox_;
  std::size_t queued_bytes_ = 0;
  bool writing_ = false;
  std::optional<Error> broken_;
  bool done_ = false;
  bool awake_ = false;
  bool doze_awake_ = false;
  std::optional<WakeEvent> arrivals_{std::in_place};

  std::uint32_t messages_written_ = 0;  // of the thread that writes

  // Of who reads.
  std::uint32_t messages_read_ = 0;
  Arrived current_;
  ByteSpan metadata_;
  ByteSpan body_;
};

/// The calling side: connects on a thread of its own.
[[nodiscard]] PipePtr start_flight_exchange(const arrow::flight::Location& location,
                                            const arrow::flight::FlightClientOptions& options,
                                            const std::string& peer);

/// The answering side. Its handler calls `serve`, which returns when the exchange is over. Flight
/// gives a server no way to end an exchange: this side asks the other one to go, and a stranger who
/// does not go keeps his thread until he or the server does.
class AnsweredExchange final : public FlightPipe {
 public:
  using FlightPipe::FlightPipe;
  arrow::Status serve(arrow::flight::FlightMessageReader& reader,
                      arrow::flight::FlightMessageWriter& writer);
  void leave(Deadline until) override { part(until); }

 private:
  void hang_up() override;
};

}  // namespace harmonics::inline in_transport
