#include <harmonics/rpc/output_service.h>

#include <algorithm>
#include <atomic>

#include "connection.h"
#include "conversion.h"

namespace harmonics::inline in_rpc {
namespace {

constexpr int kThreadsBesideReaders = 8;

class Reader final : public wire::WorkerLogs::Service {
 public:
  Reader(std::string token, OutputService::Read read)
      : token_(std::move(token)), read_(std::move(read)) {}

  grpc::Status Read(grpc::ServerContext* context, const wire::LogRequest* in,
                    grpc::ServerWriter<wire::LogChunk>* out) override {
    if (token_of(*context) != token_) {
      return status_of(ErrorCode::kUnauthenticated, "only the server reads output from a worker");
    }
    const auto names = {"out", "err", "metrics", "artifacts", "artifact"};
    if (std::ranges::find(names, in->stream()) == names.end()) {
      return status_of(ErrorCode::kInvalidArgument,
                       format("there is no stream '{}': out, err, metrics, artifacts or artifact",
                              in->stream()));
    }
    OutputQuery query;
    query.task = {in->task()};
    query.attempt = {in->attempt()};
    query.stream = in->stream();
    query.offset = in->offset();
    query.follow = in->follow();
    query.path = in->path();
    query.limit = in->limit();
    try {
      read_({query.task, query.attempt}, query, [&](const OutputPiece& piece) {
        wire::LogChunk chunk;
        chunk.set_offset(piece.offset);
        chunk.set_data(piece.data);
        // An empty piece only asks whether anyone still listens.
        return !stopping_ && !context->IsCancelled() && (piece.data.empty() || out->Write(chunk));
      });
    } catch (const Error& error) {
      return status_of(error.code(), error.what());
    }
    // What stopped because this service does is not all there was.
    if (stopping_) return status_of(ErrorCode::kUnavailable, "the worker is ending");
    return grpc::Status::OK;
  }
  void stop() { stopping_ = true; }

 private:
  const std::string token_;
  const OutputService::Read read_;
  std::atomic<bool> stopping_{false};
};

}  // namespace

struct OutputService::Parts {
  Parts(const Options& options, Read read) : reader(options.token, std::move(read)) {}
  Reader reader;
  std::string host;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

OutputService::OutputService(const Options& options, Read read)
    : parts_(std::make_unique<Parts>(options, std::move(read))) {
  parts_->host = options.address.substr(0, options.address.rfind(':'));
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("logs");
  quota.SetMaxThreads(kMaxOutputReaders + kThreadsBesideReaders);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.AddListeningPort(options.address, listening_credentials(options.tls, Door::kWorker),
                           &parts_->port);
  builder.RegisterService(&parts_->reader);
  set_server_limits(builder);
  parts_->server = builder.BuildAndStart();
  if (!parts_->server || parts_->port == 0) {
    fail(ErrorCode::kUnavailable, "cannot serve logs at {}: choose another --addr",
         options.address);
  }
}

OutputService::~OutputService() {
  parts_->reader.stop();
  parts_->server->Shutdown(std::chrono::system_clock::now());
  parts_->server->Wait();
}

std::string OutputService::address() const { return format("{}:{}", parts_->host, parts_->port); }

}  // namespace harmonics::inline in_rpc
