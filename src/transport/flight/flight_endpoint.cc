// Servers and clients of the Flight transport.
#include <sys/socket.h>

#include <atomic>
#include <utility>

#include <harmonics/base/file.h>
#include <harmonics/base/log.h>

#include "endpoint.h"
#include "flight_guest.h"
#include "flight_pipe.h"
#include "tcp/tls.h"

namespace harmonics::inline in_transport {
namespace {

namespace flight = arrow::flight;

// The most exchanges that a server has at once, boundaries and strangers together: each has a
// thread.
constexpr int kMostExchanges = 128;
// Of a channel. A server of Flight takes what gRPC can announce, see the guide.
constexpr int kLargestMessage = static_cast<int>(kPieceBytes) + (1 << 17);

template <typename T>
T valid(arrow::Result<T> result, const std::string& what) {
  if (!result.ok()) fail(ErrorCode::kUnavailable, "{}: {}", what, result.status().message());
  return std::move(result).ValueUnsafe();
}

std::string host_of(const SocketAddress& address) {
  const std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

flight::Location location_of(const SocketAddress& address, bool tls) {
  return valid(tls ? flight::Location::ForGrpcTls(host_of(address), address.port())
                   : flight::Location::ForGrpcTcp(host_of(address), address.port()),
               address.text());
}

class BoundaryFlights final : public flight::FlightServerBase {
 public:
  void open(Reception& reception) { reception_ = &reception; }

  arrow::Status DoExchange(const flight::ServerCallContext& context,
                           std::unique_ptr<flight::FlightMessageReader> reader,
                           std::unique_ptr<flight::FlightMessageWriter> writer) override {
    Reception* const reception = reception_;
    if (reception == nullptr || ++exchanges_ > kMostExchanges) {
      --exchanges_;
      return flight::MakeFlightError(flight::FlightStatusCode::Unavailable,
                                     "too many exchanges; try again");
    }
    const arrow::Status status = serve(*reception, context, *reader, *writer);
    --exchanges_;
    return status;
  }

 private:
  static arrow::Status serve(Reception& reception, const flight::ServerCallContext& context,
                             flight::FlightMessageReader& reader,
                             flight::FlightMessageWriter& writer) {
    const std::string peer = context.peer().substr(context.peer().find(':') + 1);
    const flight::FlightDescriptor& asked = reader.descriptor();
    if (asked.type == flight::FlightDescriptor::PATH && asked.path.size() == 1) {
      const auto header = [&](std::string_view name) {
        const auto found = context.incoming_headers().find(name);
        return found == context.incoming_headers().end() ? std::string()
                                                         : std::string(found->second);
      };
      return serve_guest(
          reception,
          {asked.path.front(), header("harmonics-run"), header("harmonics-token"), peer, context},
          reader, writer);
    }
    if (asked.type != flight::FlightDescriptor::CMD || asked.cmd != kFlightCommand) {
      return arrow::Status::Invalid(
          "ask for a boundary with a path that has its name as the only part");
    }
    const auto exchange = std::make_shared<AnsweredExchange>(peer);
    Visitor visitor;
    visitor.peer = peer;
    visitor.open = [exchange](Deadline) { return make_pipe_stream(exchange); };
    visitor.hang_up = [exchange] { exchange->shut(); };
    if (!reception.admit(std::move(visitor))) {
      return flight::MakeFlightError(flight::FlightStatusCode::Unavailable, "try again");
    }
    return exchange->serve(reader, writer);
  }

  std::atomic<Reception*> reception_ = nullptr;
  std::atomic<int> exchanges_ = 0;
};

/// How long a server that goes away waits for calls to end by themselves.
constexpr std::chrono::milliseconds kLastCalls{200};

class FlightListener final : public Listener {
 public:
  FlightListener(const SocketAddress& address, const TransportOptions& options,
                 std::unique_ptr<BoundaryFlights> server)
      : Listener(address, options.tls, options.handshake_timeout), server_(std::move(server)) {
    server_->open(reception());
  }
  ~FlightListener() override {
    reception().close();
    // A call whose other end is done as well gets to say so; the others are cancelled.
    const auto until = std::chrono::system_clock::now() + kLastCalls;
    const arrow::Status status = server_->Shutdown(&until);
    if (!status.ok()) log_warn("transport", "Flight at {}: {}", address().text(), status.message());
  }

 private:
  std::unique_ptr<BoundaryFlights> server_;
};

ListenerPtr start_server(const SocketAddress& address, const TransportOptions& options) {
  // Flight cannot tell an address that is taken from one that cannot be had at all.
  if (!listen_on(address)) return nullptr;
  flight::FlightServerOptions how(location_of(address, options.tls.enabled()));
  if (options.tls.enabled()) {
    const TlsContext checked(options.tls, TlsContext::Side::kListening);
    how.tls_certificates.push_back(
        {read_text_file(options.tls.certificate_file), read_text_file(options.tls.key_file)});
    how.verify_client = !options.tls.authority_file.empty();
    if (how.verify_client) how.root_certificates = read_text_file(options.tls.authority_file);
  }
  auto server = std::make_unique<BoundaryFlights>();
  if (!server->Init(how).ok()) return nullptr;  // someone else was quicker
  const auto port = static_cast<std::uint16_t>(server->port());
  return std::make_shared<FlightListener>(address.with_port(port), options, std::move(server));
}

ListenerPtr open_flight_listener(const SocketAddress& address, const TransportOptions& options) {
  return shared_listener("flight", address, options.tls,
                         [&] { return start_server(address, options); });
}

flight::FlightClientOptions client_options(const RemoteBinding& binding,
                                           const TransportOptions& options) {
  flight::FlightClientOptions out = flight::FlightClientOptions::Defaults();
  const auto timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.handshake_timeout);
  out.generic_options = {{"grpc.use_local_subchannel_pool", 1},
                         {"grpc.enable_http_proxy", 0},
                         {"grpc.enable_retries", 0},
                         {"grpc.max_receive_message_length", kLargestMessage},
                         {"grpc.min_reconnect_backoff_ms", static_cast<int>(timeout.count())}};
  const TlsOptions& tls = options.tls;
  if (!tls.enabled()) return out;
  const TlsContext checked(tls, TlsContext::Side::kConnecting);
  out.override_hostname = tls.server_name.empty() ? binding.host : tls.server_name;
  if (!tls.authority_file.empty()) out.tls_root_certs = read_text_file(tls.authority_file);
  if (!tls.certificate_file.empty()) {
    out.cert_chain = read_text_file(tls.certificate_file);
    out.private_key = read_text_file(tls.key_file);
  }
  return out;
}

}  // namespace

/// The connection options of the target name this, so that the linker takes the part in: nothing
/// else asks for it.
extern "C" void harmonics_transport_flight_part() {}

TransportPtr make_flight(const RemoteBinding& binding, const TransportOptions& options) {
  Route route;
  route.open_listener = open_flight_listener;
  route.make_connection = [](StreamPtr stream, const Agreement& agreement, Deadline) {
    return make_pipe_connection(std::move(stream), DecoderLimits{agreement.max_message_size()});
  };
  // One address of the host after the other, an attempt each.
  const auto attempts = std::make_shared<std::atomic<std::size_t>>(0);
  const bool tls = options.tls.enabled();
  route.connect = [=, how = client_options(binding, options)](Deadline, const WakeEvent&) {
    const std::vector<SocketAddress> addresses = resolve(binding.host, binding.port);
    const SocketAddress& address = addresses[(*attempts)++ % addresses.size()];
    return make_pipe_stream(start_flight_exchange(location_of(address, tls), how, address.text()));
  };
  return make_between_hosts(binding, options, std::move(route));
}

}  // namespace harmonics::inline in_transport
