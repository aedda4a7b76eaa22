#include "transport_contract_testing.h"

#include <atomic>
#include <memory>

#include <harmonics/transport/bus.h>

#include "endpoint_testing.h"
#include "tls_testing.h"

namespace harmonics::inline in_transport {
namespace {

std::pair<TransportPtr, TransportPtr> bus(const PairWish& wish) {
  return make_bus(wish.boundary, wish.window);
}

RemoteBinding binding_of(const PairWish& wish, RemoteTransport transport, bool compress) {
  return {wish.boundary, "127.0.0.1", 0, transport, compress, wish.max_message_size};
}

// The ends of a boundary between hosts, made with these options.
auto network(RemoteTransport transport, bool compress, TransportOptions options = {}) {
  return [=](const PairWish& wish) {
    TransportOptions with_window = options;
    with_window.window = wish.window;
    return local_pair(binding_of(wish, transport, compress), with_window);
  };
}

auto with_token(RemoteTransport transport) {
  TransportOptions options;
  options.run = "contract";
  options.token = "open sesame, said the thief";
  return network(transport, false, options);
}

auto with_tls(RemoteTransport transport) {
  return [=](const PairWish& wish) {
    static const TestCertificates certificates;
    TransportOptions options;
    options.tls = certificates.options();
    return network(transport, false, options)(wish);
  };
}

// One user's ends with one name and port meet wherever they are: the run keeps tests apart, and the
// port keeps the pairs of one test program apart.
auto shm(bool compress) {
  return [=](const PairWish& wish) {
    static std::atomic<int> next = 0;
    TransportOptions options;
    options.run = unique_name("contract");
    options.window = wish.window;
    RemoteBinding binding = binding_of(wish, RemoteTransport::SharedMemory, compress);
    for (;;) {
      binding.port = static_cast<std::uint16_t>(1 + (::getpid() * 131 + next++ * 7) % 65'000);
      binding.listen = true;
      TransportPtr first;
      try {
        first = make_transport(binding, options);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kAlreadyExists) continue;
        throw;
      }
      binding.listen = false;
      return std::pair(std::move(first), make_transport(binding, options));
    }
  };
}

const std::vector<TransportCase> kCases = {
    {"Bus", bus, false},
    {"Tcp", network(RemoteTransport::TCP, false)},
    {"TcpCompressed", network(RemoteTransport::TCP, true)},
    {"TcpWithToken", with_token(RemoteTransport::TCP)},
    {"TcpWithTls", with_tls(RemoteTransport::TCP)},
#if HARMONICS_HAS_GRPC
    {"Grpc", network(RemoteTransport::GRPC, false)},
    {"GrpcCompressed", network(RemoteTransport::GRPC, true)},
    {"GrpcWithToken", with_token(RemoteTransport::GRPC)},
    {"GrpcWithTls", with_tls(RemoteTransport::GRPC)},
#endif
#if HARMONICS_HAS_FLIGHT
    {"Flight", network(RemoteTransport::Flight, false)},
    {"FlightCompressed", network(RemoteTransport::Flight, true)},
    {"FlightWithToken", with_token(RemoteTransport::Flight)},
    {"FlightWithTls", with_tls(RemoteTransport::Flight)},
#endif
    {"SharedMemory", shm(false)},
    {"SharedMemoryCompressed", shm(true)},
};

INSTANTIATE_TEST_SUITE_P(All, TransportContract, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace harmonics::inline in_transport
