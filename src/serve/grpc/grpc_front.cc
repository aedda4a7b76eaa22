#include <harmonics/serve/grpc_front.h>

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/serve/http_front.h>

#include "oip_messages.h"
#include "wire/oip_types.h"

// What makes the linker take this file although nothing names it.
extern "C" void harmonics_serve_grpc_part() {}

namespace harmonics::inline in_serve {
namespace {

using Context = grpc::CallbackServerContext;
using Call = grpc::ServerUnaryReactor;

constexpr int kHandshakeMilliseconds = 10'000;
constexpr int kIdleMilliseconds = 300'000;
constexpr std::size_t kMaxHeldGrpcBytes = std::size_t{512} << 20;
constexpr std::int64_t kRoomBesideTensors = 256 << 10;
constexpr std::int64_t kMaxGrpcMessage = std::int64_t{1} << 30;
constexpr std::size_t kMaxPemBytes = 1 << 20;

grpc::Status status_of(const Error& error) {
  return {static_cast<grpc::StatusCode>(error.code()), error.what()};
}

// The longest message that a request to this model can need; numbers may travel one by one.
int longest_message(const ModelCard& card) {
  const double bytes =
      2.0 * static_cast<double>(row_bytes(card)) * static_cast<double>(card.batch_rows);
  return static_cast<int>(
             std::min(bytes, static_cast<double>(kMaxGrpcMessage - kRoomBesideTensors))) +
         static_cast<int>(kRoomBesideTensors);
}

class OipService final : public inference::GRPCInferenceService::CallbackService {
 public:
  OipService(InferenceService& service, const FrontAccess& access)
      : service_(service), access_(access) {}

  Call* ServerLive(Context* context, const inference::ServerLiveRequest*,
                   inference::ServerLiveResponse* out) override {
    out->set_live(true);
    return finished(context, grpc::Status::OK);
  }
  Call* ServerReady(Context* context, const inference::ServerReadyRequest*,
                    inference::ServerReadyResponse* out) override {
    out->set_ready(service_.state() == ServiceState::kReady);
    return finished(context, grpc::Status::OK);
  }
  Call* ModelReady(Context* context, const inference::ModelReadyRequest* in,
                   inference::ModelReadyResponse* out) override {
    return checked(context, *in, [&] { out->set_ready(service_.state() == ServiceState::kReady); });
  }
  Call* ServerMetadata(Context* context, const inference::ServerMetadataRequest*,
                       inference::ServerMetadataResponse* out) override {
    return guarded(context, [&] {
      out->set_name(kServerName);
      out->set_version(server_version());
    });
  }
  Call* ModelMetadata(Context* context, const inference::ModelMetadataRequest* in,
                      inference::ModelMetadataResponse* out) override {
    return checked(context, *in, [&] { fill_metadata(service_.card(), *out); });
  }

  Call* ModelInfer(Context* context, const inference::ModelInferRequest* in,
                   inference::ModelInferResponse* out) override {
    Call* call = context->DefaultReactor();
    try {
      check_token(*context);
      check_model(service_.card(), in->model_name(), in->model_version());
      InferenceRequest request = request_of(*in);
      request.timeout = time_left(*context);
      InferenceRequest wished{request.id, {}, request.outputs};
      service_.submit(std::move(request),
                      [this, call, out, wished = std::move(wished)](InferenceAnswer answer) {
                        if (answer.error) return call->Finish(status_of(*answer.error));
                        fill_answer(service_.card(), wished, answer.outputs, *out);
                        call->Finish(grpc::Status::OK);
                      });
    } catch (const Error& error) {
      call->Finish(status_of(error));
    }
    return call;
  }

 private:
  static Call* finished(Context* context, const grpc::Status& status) {
    Call* call = context->DefaultReactor();
    call->Finish(status);
    return call;
  }

  void check_token(const Context& context) const {
    const auto found = context.client_metadata().find("authorization");
    const bool shown = found != context.client_metadata().end();
    const std::string_view text =
        shown ? std::string_view(found->second.data(), found->second.size()) : "";
    if (lets_in(access_, text)) return;
    fail(ErrorCode::kUnauthenticated, "show the token of this service: authorization: Bearer …");
  }

  template <typename Fill>
  Call* guarded(Context* context, Fill fill) const {
    try {
      check_token(*context);
      fill();
      return finished(context, grpc::Status::OK);
    } catch (const Error& error) {
      return finished(context, status_of(error));
    }
  }

  template <typename Request, typename Fill>
  Call* checked(Context* context, const Request& in, Fill fill) const {
    return guarded(context, [&] {
      check_model(service_.card(), in.name(), in.version());
      fill();
    });
  }

  // Nothing: the client set no deadline.
  static std::optional<Nanoseconds> time_left(const Context& context) {
    const auto deadline = context.deadline();
    if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
    return std::max(Nanoseconds::zero(), std::chrono::duration_cast<Nanoseconds>(
                                             deadline - std::chrono::system_clock::now()));
  }

  InferenceService& service_;
  const FrontAccess access_;
};

std::shared_ptr<grpc::ServerCredentials> credentials_of(const FrontAccess& access) {
  if (!access.has_tls()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      access.authority_file.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({read_text_file(access.key_file, kMaxPemBytes),
                                        read_text_file(access.certificate_file, kMaxPemBytes)});
  if (!access.authority_file.empty()) {
    options.pem_root_certs = read_text_file(access.authority_file, kMaxPemBytes);
  }
  return grpc::SslServerCredentials(options);
}

class RunningGrpcFront final : public GrpcFront {
 public:
  RunningGrpcFront(InferenceService& service, const ListenAddress& address,
                   const FrontAccess& access)
      : served_(service), oip_(service, access) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(listen_address_text(address), credentials_of(access), &port);
    builder.RegisterService(&oip_);
    builder.SetMaxReceiveMessageSize(longest_message(service.card()));
    builder.SetMaxSendMessageSize(-1);
    builder.SetResourceQuota(grpc::ResourceQuota("serve").Resize(kMaxHeldGrpcBytes));
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) {
      fail(ErrorCode::kUnavailable,
           "cannot listen on {}: is it taken, are the files of TLS whole? Choose another "
           "--listen-grpc",
           listen_address_text(address));
    }
    port_ = static_cast<std::uint16_t>(port);
  }

  ~RunningGrpcFront() override {
    served_.end("the service has ended");
    server_->Shutdown(std::chrono::system_clock::now() + kFarewell);
    server_->Wait();
  }

  std::uint16_t port() const override { return port_; }

 private:
  InferenceService& served_;
  OipService oip_;
  std::unique_ptr<grpc::Server> server_;
  std::uint16_t port_ = 0;
};

}  // namespace

std::unique_ptr<GrpcFront> make_grpc_front(InferenceService& service, const ListenAddress& address,
                                           const FrontAccess& access) {
  return std::make_unique<RunningGrpcFront>(service, address, access);
}

}  // namespace harmonics::inline in_serve
