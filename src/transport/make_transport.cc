#include <harmonics/base/error.h>
#include <harmonics/transport/transport.h>

#include "endpoint.h"
#include "frame/message_check.h"
#include "host_turns.h"
#include "session/token_key.h"

namespace harmonics::inline in_transport {
namespace {

void check_options(const RemoteBinding& binding, const TransportOptions& options) {
  check_binding(binding);
  check_window(binding.name, options.window);
  const auto wrong = [&](std::string_view what) {
    fail(ErrorCode::kInvalidArgument, "boundary '{}': {}", binding.name, what);
  };
  if (options.run.size() > kMaxRunName) wrong("the name of the run is too long, at most 128 bytes");
  if (options.token.size() > kMaxToken) wrong("the token is too long, at most 1024 bytes");
  if (!options.token.empty() && token_bits(options.token) < kMinTokenBits) {
    wrong(
        "the token is too easily guessed: take 16 random bytes or more, as 'openssl rand -hex 16' "
        "writes them");
  }
  if (options.ask_again < Nanoseconds(0)) wrong("ask_again must not be negative");
  if (options.heartbeat <= Nanoseconds(0) || options.handshake_timeout <= Nanoseconds(0) ||
      options.retry_first <= Nanoseconds(0) || options.retry_longest < options.retry_first) {
    wrong(
        "heartbeat, handshake_timeout and retry times must be positive, and retry_longest at "
        "least retry_first");
  }
  if (binding.port == 0 && !binding.listen.value_or(true)) {
    wrong("an end that connects needs a port");
  }
  if (lists_hosts(binding)) {
    if (binding.transport != RemoteTransport::GRPC) wrong("only a gRPC binding lists hosts");
    if (binding.listen.value_or(false)) wrong("an end that lists hosts connects, it cannot listen");
    if (binding.port == 0) wrong("an end that lists hosts needs their port");
  }
}

[[noreturn]] void not_linked(const RemoteBinding& binding, std::string_view target,
                             std::string_view option) {
  fail(
      ErrorCode::kUnimplemented,
      "boundary '{}': this program has no {} transport; link {} (of a build with {}=ON), or choose "
      "tcp or shm",
      binding.name, transport_name(binding.transport), target, option);
}

}  // namespace

// Stand-ins: a program that links the part gets the part's own.
[[gnu::weak]] TransportPtr make_grpc(const RemoteBinding& binding, const TransportOptions&) {
  not_linked(binding, "harmonics::transport_grpc", "HARMONICS_WITH_GRPC");
}

[[gnu::weak]] TransportPtr make_flight(const RemoteBinding& binding, const TransportOptions&) {
  not_linked(binding, "harmonics::transport_flight", "HARMONICS_WITH_FLIGHT");
}

TransportPtr make_transport(const RemoteBinding& binding, const TransportOptions& options) {
  check_options(binding, options);
  switch (binding.transport) {
    case RemoteTransport::TCP: return make_tcp(binding, options);
    case RemoteTransport::SharedMemory: return make_shm(binding, options);
    case RemoteTransport::GRPC: return make_grpc(binding, options);
    case RemoteTransport::Flight: return make_flight(binding, options);
  }
  fail(ErrorCode::kInvalidArgument, "boundary '{}': unknown transport", binding.name);
}

}  // namespace harmonics::inline in_transport
