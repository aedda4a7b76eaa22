#include "flight_pipe.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace harmonics::inline in_transport {
namespace {

namespace flight = arrow::flight;

// Bytes that something else owns, for as long as Arrow needs them.
template <typename Owner>
class OwnedBuffer final : public arrow::Buffer {
 public:
  OwnedBuffer(ByteSpan bytes, Owner owner)
      : Buffer(reinterpret_cast<const std::uint8_t*>(bytes.data()),
               static_cast<std::int64_t>(bytes.size())),
        owner_(std::move(owner)) {}

 private:
  Owner owner_;
};

std::shared_ptr<arrow::Buffer> buffer_of(Bytes bytes) {
  const auto kept = std::make_shared<const Bytes>(std::move(bytes));
  return std::make_shared<OwnedBuffer<std::shared_ptr<const Bytes>>>(*kept, kept);
}

const std::shared_ptr<arrow::Schema>& byte_schema() {
  static const std::shared_ptr<arrow::Schema> schema =
      arrow::schema({arrow::field("bytes", arrow::uint8(), false)});
  return schema;
}

ByteSpan span_of(const arrow::Buffer& buffer) {
  return {reinterpret_cast<const std::byte*>(buffer.data()),
          static_cast<std::size_t>(buffer.size())};
}

// The bytes of a batch that a peer sent.
ByteSpan body_of(const arrow::RecordBatch& batch) {
  const bool ours = batch.num_columns() == 1 && batch.column(0)->type_id() == arrow::Type::UINT8 &&
                    batch.num_rows() <= static_cast<std::int64_t>(kPieceBytes);
  if (!ours || !batch.Validate().ok()) {
    fail(ErrorCode::kDataLoss, "a Flight batch of {} rows and {} columns is no part of a frame",
         batch.num_rows(), batch.num_columns());
  }
  const arrow::ArrayData& data = *batch.column(0)->data();
  if (data.length == 0 || !data.buffers[1]) return {};
  return span_of(*data.buffers[1])
      .subspan(static_cast<std::size_t>(data.offset), static_cast<std::size_t>(data.length));
}

}  // namespace

Error flight_error(const arrow::Status& status, const std::string& peer) {
  if (status.ok()) return {ErrorCode::kUnavailable, format("{} closed the connection", peer)};
  const std::string& why = status.message();
  const auto says = [&](std::string_view text) { return why.find(text) != std::string::npos; };
  if (says("http1.x")) {
    return {ErrorCode::kInvalidArgument,
            format("{} speaks HTTP/1, not Flight ({}); check host and port", peer, why)};
  }
  if (status.IsNotImplemented()) {
    return {ErrorCode::kUnimplemented,
            format("{} is no Harmonics boundary ({}); check host and port", peer, why)};
  }
  if (says("CERTIFICATE_VERIFY_FAILED") || says("certificate verify failed") || says("Peer name")) {
    return {ErrorCode::kUnauthenticated,
            format("no TLS with {}: {}; both ends need TLS options, and certificates that the "
                   "other trusts",
                   peer, why)};
  }
  return {ErrorCode::kUnavailable, format("no Flight with {}: {}", peer, why)};
}

// --- writing ---

bool FlightPipe::has_room() const {
  const Lock lock(mutex_);
  return queued_bytes_ < kPipeQueuedBytes || broken_;
}

void FlightPipe::write(Piece piece) {
  const Lock lock(mutex_);
  if (broken_) return;
  queued_bytes_ += piece.size();
  outbox_.push_back(std::move(piece));
  changed_.notify_all();
}

std::shared_ptr<arrow::Buffer> FlightPipe::numbered(Bytes bytes) {
  const std::uint32_t number = messages_written_++;
  const auto* raw = reinterpret_cast<const std::byte*>(&number);
  bytes.insert(bytes.begin(), raw, raw + sizeof(number));
  return buffer_of(std::move(bytes));
}

arrow::Status FlightPipe::write_piece(Writer& writer, Piece piece) {
  if (piece.payload.empty()) {
    piece.head.insert(piece.head.end(), piece.tail.begin(), piece.tail.end());
    return writer.WriteMetadata(numbered(std::move(piece.head)));
  }
  const auto rows = static_cast<std::int64_t>(piece.payload.size());
  const auto column = arrow::ArrayData::Make(
      arrow::uint8(), rows,
      {nullptr, std::make_shared<OwnedBuffer<std::shared_ptr<const OutgoingMessage>>>(
                    piece.payload, std::move(piece.owner))},
      0);
  const auto batch = arrow::RecordBatch::Make(byte_schema(), rows, {column});
  ARROW_RETURN_NOT_OK(writer.WriteWithMetadata(*batch, numbered(std::move(piece.head))));
  if (piece.tail.empty()) return arrow::Status::OK();
  return writer.WriteMetadata(numbered(std::move(piece.tail)));
}

void FlightPipe::write_all(Writer& writer) {
  arrow::Status status = writer.Begin(byte_schema());
  Lock lock(mutex_);
  while (status.ok()) {
    changed_.wait(lock, [&] { return done_ || !outbox_.empty() || end_writes_; });
    if (done_) return;
    if (outbox_.empty()) {
      end_writes_ = false;
      lock.unlock();
      // A message without a byte asks the other side to go. DoneWriting would do on the calling
      // side, but Arrow calls it as well when a read finds the end, and gRPC aborts at the second.
      status = writer.WriteMetadata(std::make_shared<arrow::Buffer>(nullptr, 0));
      lock.lock();
      continue;
    }
    Piece piece = std::move(outbox_.front());
    outbox_.pop_front();
    const std::size_t bytes = piece.size();
    writing_ = true;
    lock.unlock();
    status = write_piece(writer, std::move(piece));
    lock.lock();
    writing_ = false;
    queued_bytes_ -= std::min(queued_bytes_, bytes);
    changed_.notify_all();
  }
  // Why the call is over is for the thread that reads to find out.
  hang_up();
}

// --- reading ---

Error FlightPipe::read_all(Reader& reader) {
  for (;;) {
    arrow::Result<flight::FlightStreamChunk> chunk = reader.Next();
    if (!chunk.ok()) return flight_error(chunk.status(), peer_);
    const bool empty = !chunk->app_metadata || chunk->app_metadata->size() == 0;
    if (empty) {
      // The end of the stream, a wish that we go, or nothing that an end of ours would send.
      return {ErrorCode::kUnavailable, format("{} closed the connection", peer_)};
    }
    Lock lock(mutex_);
    last_heard_ = std::chrono::steady_clock::now();
    if (!dropping_) inbox_.push_back({chunk->app_metadata, chunk->data});
    if (arrivals_) arrivals_->signal();
    changed_.notify_all();
    changed_.wait(lock, [&] { return inbox_.size() < kPipeWaitingMessages || broken_; });
    if (broken_) return *broken_;
  }
}

std::size_t FlightPipe::read(std::span<std::byte> to) {
  while (metadata_.empty() && body_.empty()) {
    {
      const Lock lock(mutex_);
      if (inbox_.empty()) {
        if (broken_) throw *broken_;
        return 0;
      }
      current_ = std::move(inbox_.front());
      inbox_.pop_front();
      last_heard_ = std::chrono::steady_clock::now();  // it may have waited for us
      changed_.notify_all();
    }
    metadata_ = span_of(*current_.metadata);
    if (current_.batch) body_ = body_of(*current_.batch);
    std::uint32_t number = 0;
    if (metadata_.size() >= sizeof(number)) std::memcpy(&number, metadata_.data(), sizeof(number));
    if (metadata_.size() < sizeof(number) || number != messages_read_) {
      fail(ErrorCode::kDataLoss, "Flight message {} from {} was lost or damaged on its way",
           messages_read_, peer_);
    }
    ++messages_read_;
    metadata_ = metadata_.subspan(sizeof(number));
  }
  ByteSpan& from = metadata_.empty() ? body_ : metadata_;
  const std::size_t count = std::min(to.size(), from.size());
  std::memcpy(to.data(), from.data(), count);
  from = from.subspan(count);
  return count;
}

// --- waiting ---

void FlightPipe::wait(Deadline until, bool room) {
  if (!metadata_.empty() || !body_.empty()) return;
  Lock lock(mutex_);
  changed_.wait_until(lock, until, [&] {
    return awake_ || broken_ || !inbox_.empty() || (room && queued_bytes_ < kPipeQueuedBytes);
  });
  awake_ = false;
}

void FlightPipe::doze(Deadline until) {
  Lock lock(mutex_);
  woken_doze_.wait_until(lock, until, [&] { return doze_awake_; });
  doze_awake_ = false;
}

void FlightPipe::wake() {
  const Lock lock(mutex_);
  awake_ = doze_awake_ = true;
  changed_.notify_all();
  woken_doze_.notify_all();
}

Deadline FlightPipe::last_heard() const {
  const Lock lock(mutex_);
  return last_heard_;
}

void FlightPipe::clear_arrivals() {
  const Lock lock(mutex_);
  if (inbox_.empty() && !broken_) arrivals_->clear();
}

void FlightPipe::stop_signalling() {
  const Lock lock(mutex_);
  arrivals_.reset();
}

// --- the end ---

// Under the mutex. The first reason is the one that counts.
void FlightPipe::break_off(const Error& reason) {
  if (!broken_) broken_ = reason;
  outbox_.clear();
  if (arrivals_) arrivals_->signal();
  changed_.notify_all();
}

void FlightPipe::shut() {
  const Lock lock(mutex_);
  break_off(Error(ErrorCode::kUnavailable, format("the connection to {} was ended", peer_)));
  if (!done_) hang_up();
}

void FlightPipe::part(Deadline until) {
  {
    Lock lock(mutex_);
    dropping_ = true;
    inbox_.clear();
    changed_.notify_all();
    const bool drained =
        changed_.wait_until(lock, until, [&] { return broken_ || (outbox_.empty() && !writing_); });
    if (drained && !broken_) {
      end_writes_ = true;
      changed_.notify_all();
      changed_.wait_until(lock, until, [&] { return done_; });
    }
  }
  shut();
}

void FlightPipe::done(const Error& reason) {
  const Lock lock(mutex_);
  done_ = true;
  break_off(reason);
}

// --- the sides ---

arrow::Status AnsweredExchange::serve(flight::FlightMessageReader& reader,
                                      flight::FlightMessageWriter& writer) {
  std::thread writing([&] { write_all(writer); });
  const Error reason = read_all(reader);
  done(reason);
  writing.join();
  return arrow::Status::OK();
}

void AnsweredExchange::hang_up() {
  end_writes_ = true;
  changed_.notify_all();
}

namespace {

class CallingExchange final : public FlightPipe {
 public:
  CallingExchange(const flight::Location& location, const flight::FlightClientOptions& options,
                  const std::string& peer)
      : FlightPipe(peer), thread_([this, location, options] { run(location, options); }) {}
  ~CallingExchange() override {
    shut();
    thread_.join();
  }

  void leave(Deadline) override { shut(); }

 private:
  void run(const flight::Location& location, const flight::FlightClientOptions& options) {
    const arrow::Status status = exchange(location, options);
    done(flight_error(status, peer()));
  }

  arrow::Status exchange(const flight::Location& location,
                         const flight::FlightClientOptions& options) {
    ARROW_ASSIGN_OR_RAISE(const auto client, flight::FlightClient::Connect(location, options));
    ARROW_ASSIGN_OR_RAISE(auto call,
                          client->DoExchange(flight::FlightDescriptor::Command(kFlightCommand)));
    {
      const Lock lock(mutex_);
      reader_ = call.reader.get();
      if (cancelled_) reader_->Cancel();
    }
    std::thread writing([&] { write_all(*call.writer); });
    const Error reason = read_all(*call.reader);
    {
      const Lock lock(mutex_);
      call.reader->Cancel();
      reader_ = nullptr;
    }
    done(reason);
    writing.join();
    return call.writer->Close();
  }

  void hang_up() override {
    cancelled_ = true;
    if (reader_ != nullptr) reader_->Cancel();
  }

  flight::FlightStreamReader* reader_ = nullptr;
  bool cancelled_ = false;
  std::thread thread_;
};

}  // namespace

PipePtr start_flight_exchange(const flight::Location& location,
                              const flight::FlightClientOptions& options, const std::string& peer) {
  return std::make_shared<CallingExchange>(location, options, peer);
}

}  // namespace harmonics::inline in_transport
