#include "output_relay.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "connection.h"

namespace harmonics::inline in_rpc {
namespace {

class OutputRelay final : public grpc::ServerWriteReactor<wire::LogChunk> {
 public:
  OutputRelay(std::atomic<int>* readers, std::optional<TlsFiles> tls)
      : readers_(readers), tls_(std::move(tls)) {}

  void begin(const ClientReply& reply, wire::LogRequest request) {
    if (const Refusal* refusal = std::get_if<Refusal>(&reply)) {
      Finish(status_of(refusal->code, refusal->message));
      return;
    }
    const OutputPlace* place = std::get_if<OutputPlace>(&reply);
    if (place == nullptr) {
      Finish(status_of(ErrorCode::kInternal, "the server gave an answer of another kind"));
      return;
    }
    request.set_task(place->attempt.task.value);
    request.set_attempt(place->attempt.attempt.value);
    thread_ = std::thread([this, place = *place, request] { Finish(relay(place, request)); });
  }
  void refuse(const grpc::Status& status) { Finish(status); }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;
    changed_.notify_all();
  }
  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    if (upstream_ != nullptr) upstream_->TryCancel();
    changed_.notify_all();
  }
  void OnDone() override {
    if (thread_.joinable()) thread_.join();
    if (readers_ != nullptr) --*readers_;
    delete this;
  }

 private:
  grpc::Status relay(const OutputPlace& place, const wire::LogRequest& request) {
    const auto stub = wire::WorkerLogs::NewStub(open_channel(place.address, tls_, Door::kWorker));
    grpc::ClientContext context;
    add_token(context, place.token);
    {
      const std::lock_guard lock(mutex_);
      if (broken_) return grpc::Status::CANCELLED;
      upstream_ = &context;
    }
    const auto reader = stub->Read(&context, request);
    bool wanted = true;
    std::uint64_t relayed = request.offset();
    while (wanted && reader->Read(&chunk_)) {
      relayed = chunk_.offset() + chunk_.data().size();
      wanted = write_chunk();
    }
    // Only what nobody wants any more is cancelled: else the worker's own word on its end counts.
    if (!wanted) context.TryCancel();
    const grpc::Status status = reader->Finish();
    const std::lock_guard lock(mutex_);
    upstream_ = nullptr;
    if (broken_ || status.ok()) return grpc::Status::OK;
    const bool away = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::CANCELLED;
    if (!away) return status;
    if (relayed > request.offset()) {
      return status_of(ErrorCode::kDataLoss,
                       format("cut short after byte {}: the worker at {} ended or cannot be "
                              "reached any more; ask again when it is back",
                              relayed, place.address));
    }
    return status_of(ErrorCode::kFailedPrecondition,
                     format("the worker that has this output does not answer at {}: is it running, "
                            "and can the server reach its --addr?",
                            place.address));
  }
  bool write_chunk() {
    std::unique_lock lock(mutex_);
    if (broken_) return false;
    writing_ = true;
    StartWrite(&chunk_);
    changed_.wait(lock, [this] { return !writing_; });
    return !broken_;
  }

  std::atomic<int>* readers_;
  const std::optional<TlsFiles> tls_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  wire::LogChunk chunk_;
  bool writing_ = false;
  bool broken_ = false;
  grpc::ClientContext* upstream_ = nullptr;
};

}  // namespace

grpc::ServerWriteReactor<wire::LogChunk>* start_relay(ClusterBackend& backend, Viewer viewer,
                                                      const wire::LogRequest& request,
                                                      RelayTerms terms) {
  if (++terms.readers > kMaxOutputReaders) {
    --terms.readers;
    return refused_relay(status_of(
        ErrorCode::kResourceExhausted,
        format("{} readers of output are the limit: try again later", kMaxOutputReaders)));
  }
  auto* relay = new OutputRelay(&terms.readers, terms.tls);
  OutputQuery query;
  query.viewer = std::move(viewer);
  query.task = {request.task()};
  query.attempt = {request.attempt()};
  query.rank = request.rank();
  backend.ask(query, [relay, request](const ClientReply& reply) { relay->begin(reply, request); });
  return relay;
}

grpc::ServerWriteReactor<wire::LogChunk>* refused_relay(const grpc::Status& status) {
  auto* relay = new OutputRelay(nullptr, std::nullopt);
  relay->refuse(status);
  return relay;
}

}  // namespace harmonics::inline in_rpc
