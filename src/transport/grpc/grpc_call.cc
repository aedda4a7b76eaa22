#include "grpc_call.h"

#include <utility>

namespace harmonics::inline in_transport {
namespace {

class CallingSide final : public GrpcPipe,
                          public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  CallingSide(std::shared_ptr<grpc::Channel> channel, std::string peer)
      : stub_(std::move(channel)), peer_(std::move(peer)) {}

  void start(std::shared_ptr<CallingSide> self) {
    self_ = std::move(self);
    stub_.PrepareBidiStreamingCall(&context_, kGrpcMethod, {}, this);
    AddHold();  // until `finish`: reads and writes are started outside of callbacks
    StartCall();
    begin();
  }

  const std::string& peer() const override { return peer_; }

  void OnReadDone(bool good) override { read_done(good); }
  void OnWriteDone(bool good) override { write_done(good); }
  void OnDone(const grpc::Status& status) override {
    done(grpc_error(status, peer_));
    self_.reset();
  }

 private:
  void start_read(grpc::ByteBuffer* into) override { StartRead(into); }
  void start_write(const grpc::ByteBuffer* from) override { StartWrite(from); }
  void finish() override { RemoveHold(); }
  void cancel() override { context_.TryCancel(); }
  bool calls() const override { return true; }
  void end_writes() override { StartWritesDone(); }

  grpc::GenericStub stub_;
  const std::string peer_;
  grpc::ClientContext context_;
  std::shared_ptr<CallingSide> self_;
};

class AnsweringSide final : public GrpcPipe, public grpc::ServerGenericBidiReactor {
 public:
  explicit AnsweringSide(grpc::GenericCallbackServerContext& context)
      : context_(context), peer_(plain_peer(context.peer())) {}

  void start(std::shared_ptr<AnsweringSide> self) {
    self_ = std::move(self);
    begin();
  }

  const std::string& peer() const override { return peer_; }

  void OnReadDone(bool good) override { read_done(good); }
  void OnWriteDone(bool good) override { write_done(good); }
  void OnCancel() override { cancelled(); }
  void OnDone() override {
    done(Error(ErrorCode::kUnavailable, format("the connection to {} was ended", peer_)));
    self_.reset();
  }

 private:
  // "ipv4:127.0.0.1:9000" without its family.
  static std::string plain_peer(const std::string& text) { return text.substr(text.find(':') + 1); }

  void start_read(grpc::ByteBuffer* into) override { StartRead(into); }
  void start_write(const grpc::ByteBuffer* from) override { StartWrite(from); }
  void finish() override { Finish(grpc::Status::OK); }
  void cancel() override { context_.TryCancel(); }
  bool calls() const override { return false; }

  grpc::GenericCallbackServerContext& context_;
  const std::string peer_;
  std::shared_ptr<AnsweringSide> self_;
};

bool says(const grpc::Status& status, std::string_view text) {
  return status.error_message().find(text) != std::string::npos;
}

}  // namespace

GrpcPipePtr start_grpc_call(std::shared_ptr<grpc::Channel> channel, std::string peer) {
  auto call = std::make_shared<CallingSide>(std::move(channel), std::move(peer));
  call->start(call);
  return call;
}

AnsweredCall answer_grpc_call(grpc::GenericCallbackServerContext& context) {
  auto call = std::make_shared<AnsweringSide>(context);
  call->start(call);
  return {call, call.get()};
}

Error grpc_error(const grpc::Status& status, const std::string& peer) {
  if (status.ok()) {
    return {ErrorCode::kUnavailable, format("{} closed the connection", peer)};
  }
  const std::string& why = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return {
        ErrorCode::kUnimplemented,
        format("{} speaks gRPC but is no Harmonics boundary ({}); check host and port", peer, why)};
  }
  if (says(status, "http1.x")) {
    return {ErrorCode::kInvalidArgument,
            format("{} speaks HTTP/1, not gRPC ({}); check host and port", peer, why)};
  }
  if (says(status, "CERTIFICATE_VERIFY_FAILED") || says(status, "certificate verify failed") ||
      says(status, "Peer name")) {
    return {ErrorCode::kUnauthenticated,
            format("no TLS with {}: {}; both ends need TLS options, and certificates that the "
                   "other trusts",
                   peer, why)};
  }
  return {ErrorCode::kUnavailable, format("no gRPC with {}: {}", peer, why)};
}

}  // namespace harmonics::inline in_transport
