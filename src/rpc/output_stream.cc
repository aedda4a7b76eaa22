// Reading what a task prints.
#include "client_parts.h"

namespace harmonics::inline in_rpc {

using std::chrono::system_clock;

struct OutputStream::Parts {
  explicit Parts(ClusterClient::Parts& owner) : client(owner) {}

  ClusterClient::Parts& client;
  CallWait wait{client.options.interrupted};
  grpc::ClientContext context{};
  std::unique_ptr<grpc::ClientAsyncReader<wire::LogChunk>> reader{};
  wire::LogChunk chunk{};
  bool over = false;

  /// One operation of the reader, waited for.
  bool step() {
    return wait.next([this] { context.TryCancel(); }).ok;
  }
  grpc::Status finish() {
    over = true;
    grpc::Status status;
    reader->Finish(&status, this);
    static_cast<void>(step());
    return status;
  }
};

OutputStream::OutputStream(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

OutputStream::~OutputStream() {
  if (parts_->over) return;
  parts_->context.TryCancel();
  static_cast<void>(parts_->finish());
}

std::optional<OutputPiece> OutputStream::next() {
  Parts& parts = *parts_;
  if (parts.over) return std::nullopt;
  parts.reader->Read(&parts.chunk, &parts);
  const bool more = parts.step();
  if (parts.wait.left()) {
    static_cast<void>(parts.finish());
    fail(ErrorCode::kCancelled, "interrupted while it waited for output");
  }
  if (more) return OutputPiece{parts.chunk.offset(), std::move(*parts.chunk.mutable_data())};
  parts.client.check_status(parts.finish());
  return std::nullopt;
}

std::unique_ptr<OutputStream> ClusterClient::open_output(const OutputQuery& query) {
  parts_->prepare_call();
  wire::LogRequest request;
  encode(query, request);
  auto parts = std::make_unique<OutputStream::Parts>(*parts_);
  const auto deadline = system_clock::now() + parts_->options.timeout;
  if (!query.follow) parts->context.set_deadline(deadline);
  add_token(parts->context, parts_->options.token);
  parts->reader = parts_->leader(deadline).AsyncReadLog(&parts->context, request,
                                                        &parts->wait.queue(), parts.get());
  static_cast<void>(parts->step());
  return std::unique_ptr<OutputStream>(new OutputStream(std::move(parts)));
}

}  // namespace harmonics::inline in_rpc
