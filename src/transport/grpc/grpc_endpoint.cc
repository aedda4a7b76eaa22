// Servers and channels of the gRPC transport.
#include <grpc/support/log.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <utility>

#include <harmonics/base/log.h>

#include "endpoint.h"
#include "grpc_call.h"
#include "host_turns.h"
#include "tcp/tls.h"

namespace harmonics::inline in_transport {
namespace {

// What both sides tell gRPC: how much it reads at once and lets the other side send ahead.
constexpr std::pair<const char*, int> kSharedArguments[] = {
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20},
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20},
    {GRPC_ARG_TCP_READ_CHUNK_SIZE, 256 << 10},
    {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 1 << 20},
};
// gRPC looks at the size of a message when all of it is there. What keeps a stranger from filling
// the memory with one that never ends are these limits, of a server with all its connections and of
// a channel: gRPC ends the call that exceeds them. A boundary needs about 10 MiB.
constexpr std::size_t kServerMemory = std::size_t{256} << 20;
constexpr std::size_t kChannelMemory = std::size_t{64} << 20;
// Calls that one connection may have at once; a boundary needs one.
constexpr int kMostCalls = 64;

int milliseconds(Nanoseconds time) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

std::string target_of(const SocketAddress& address) {
  return (address.family() == AF_INET6 ? "ipv6:" : "ipv4:") + address.text();
}

std::string file_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// TlsContext reads and checks the files first: its errors say which one is wrong.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  const TlsContext checked(tls, TlsContext::Side::kListening);
  grpc::SslServerCredentialsOptions options(
      tls.authority_file.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                 : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = file_text(tls.authority_file);
  options.pem_key_cert_pairs.push_back({file_text(tls.key_file), file_text(tls.certificate_file)});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  const TlsContext checked(tls, TlsContext::Side::kConnecting);
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = file_text(tls.authority_file);
  options.pem_private_key = file_text(tls.key_file);
  options.pem_cert_chain = file_text(tls.certificate_file);
  return grpc::SslCredentials(options);
}

// Hands every call of our method to a reception, once there is one.
class BoundaryService final : public grpc::CallbackGenericService {
 public:
  void open(Reception& reception) { reception_ = &reception; }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    Reception* const reception = reception_;
    if (context->method() != kGrpcMethod) return CallbackGenericService::CreateReactor(context);
    const AnsweredCall call = answer_grpc_call(*context);
    Visitor visitor;
    visitor.peer = call.pipe->peer();
    visitor.open = [pipe = call.pipe](Deadline) { return make_pipe_stream(pipe); };
    visitor.hang_up = [pipe = call.pipe] { pipe->shut(); };
    if (reception == nullptr || !reception->admit(std::move(visitor))) call.pipe->shut();
    return call.reactor;
  }

 private:
  std::atomic<Reception*> reception_ = nullptr;
};

struct RunningServer {
  std::unique_ptr<BoundaryService> service = std::make_unique<BoundaryService>();
  std::unique_ptr<grpc::Server> server;
};

class GrpcListener final : public Listener {
 public:
  GrpcListener(const SocketAddress& address, const TransportOptions& options, RunningServer running)
      : Listener(address, options.tls, options.handshake_timeout), running_(std::move(running)) {
    running_.service->open(reception());
  }
  ~GrpcListener() override {
    reception().close();
    running_.server->Shutdown(std::chrono::system_clock::now());
  }

 private:
  RunningServer running_;
};

// gRPC reports to the standard error of the program: these lines belong into the log.
void log_line(gpr_log_func_args* line) {
  if (line->severity == GPR_LOG_SEVERITY_ERROR) {
    log_warn("transport", "gRPC: {}", line->message);
  } else {
    log_debug("transport", "gRPC: {}", line->message);
  }
}

// gRPC 1.51 runs callbacks on threads that end with the last channel and server. A channel that
// goes in a callback would have its own thread wait for itself (gRPC aborts), so a server that
// nobody can reach stays until the program ends.
void settle_grpc() {
  static const RunningServer* const kKeeper = [] {
    gpr_set_log_function(log_line);
    auto* keeper = new RunningServer;
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(keeper->service.get());
    keeper->server = builder.BuildAndStart();
    return keeper;
  }();
  if (!kKeeper->server) fail(ErrorCode::kInternal, "gRPC does not start");
}

ListenerPtr start_server(const SocketAddress& address, const TransportOptions& options) {
  // gRPC cannot tell an address that is taken from one that cannot be had at all.
  if (!listen_on(address)) return nullptr;
  RunningServer running;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address.text(), server_credentials(options.tls), &port);
  builder.RegisterCallbackGenericService(running.service.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(kGrpcLargestMessage));
  for (const auto& [name, value] : kSharedArguments) builder.AddChannelArgument(name, value);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCalls);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             milliseconds(options.handshake_timeout));
  builder.SetResourceQuota(grpc::ResourceQuota("boundaries").Resize(kServerMemory));
  running.server = builder.BuildAndStart();
  if (!running.server || port == 0) return nullptr;  // someone else was quicker
  return std::make_shared<GrpcListener>(address.with_port(static_cast<std::uint16_t>(port)),
                                        options, std::move(running));
}

ListenerPtr open_grpc_listener(const SocketAddress& address, const TransportOptions& options) {
  return shared_listener("grpc", address, options.tls,
                         [&] { return start_server(address, options); });
}

// A channel of its own for each attempt: gRPC shares nothing between them and never waits before it
// connects.
std::shared_ptr<grpc::Channel> open_channel(const SocketAddress& address, const std::string& name,
                                            const std::shared_ptr<grpc::ChannelCredentials>& how,
                                            const TransportOptions& options) {
  grpc::ChannelArguments arguments;
  for (const auto& [key, value] : kSharedArguments) arguments.SetInt(key, value);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kGrpcLargestMessage));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, milliseconds(options.handshake_timeout));
  arguments.SetServiceConfigJSON("{}");
  arguments.SetResourceQuota(grpc::ResourceQuota("boundary").Resize(kChannelMemory));
  if (options.tls.enabled()) arguments.SetSslTargetNameOverride(name);
  return grpc::CreateCustomChannel(target_of(address), how, arguments);
}

Route grpc_route(const RemoteBinding& binding, const TransportOptions& options) {
  Route route;
  route.open_listener = open_grpc_listener;
  route.make_connection = [](StreamPtr stream, const Agreement& agreement, Deadline) {
    return make_pipe_connection(std::move(stream), DecoderLimits{agreement.max_message_size()});
  };
  const std::string name = options.tls.server_name.empty() ? binding.host : options.tls.server_name;
  // One address of the host after the other, an attempt each.
  const auto attempts = std::make_shared<std::atomic<std::size_t>>(0);
  route.connect = [=, how = channel_credentials(options.tls)](Deadline, const WakeEvent&) {
    const std::vector<SocketAddress> addresses = resolve(binding.host, binding.port);
    const SocketAddress& address = addresses[(*attempts)++ % addresses.size()];
    return make_pipe_stream(
        start_grpc_call(open_channel(address, name, how, options), address.text()));
  };
  return route;
}

}  // namespace

/// The connection options of the target name this, so that the linker takes the part in: nothing
/// else asks for it.
extern "C" void harmonics_transport_grpc_part() {}

TransportPtr make_grpc(const RemoteBinding& binding, const TransportOptions& options) {
  settle_grpc();
  if (lists_hosts(binding)) return make_host_turns(binding, options, make_grpc);
  return make_between_hosts(binding, options, grpc_route(binding, options));
}

}  // namespace harmonics::inline in_transport
