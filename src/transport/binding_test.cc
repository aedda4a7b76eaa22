#include <harmonics/base/error.h>
#include <harmonics/transport/binding.h>
#include <harmonics/transport/transport.h>

#include <error_testing.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace harmonics::inline in_transport {
namespace {

using ::testing::HasSubstr;

TEST(Binding, PartialInitialisersAreComplete) {
  const std::vector<RemoteBinding> producers = {{"output", "hostA", 9000}};
  const std::vector<RemoteBinding> consumers = {
      {"input", "hostB", 9001, RemoteTransport::TCP, true, 0}};
  EXPECT_EQ(producers[0].transport, RemoteTransport::TCP);
  EXPECT_FALSE(producers[0].compress);
  EXPECT_EQ(producers[0].max_message_size, 0);
  EXPECT_FALSE(producers[0].listen.has_value());
  EXPECT_TRUE(consumers[0].compress);
}

TEST(Binding, UrlGivesEveryMember) {
  const RemoteBinding binding =
      parse_binding("grpc://host.example:9000/hidden@2?compress=1&listen=0&max_message_size=4096");
  const RemoteBinding expected{"hidden@2", "host.example", 9000, RemoteTransport::GRPC,
                               true,       4096,           false};
  EXPECT_EQ(binding, expected);
  EXPECT_EQ(binding_url(binding),
            "grpc://host.example:9000/hidden@2?compress=1&listen=0&max_message_size=4096");
}

TEST(Binding, UrlsReadBackToTheSameBinding) {
  const std::vector<RemoteBinding> bindings = {
      {"x", "127.0.0.1", 1},
      {"x", "::1", 65535, RemoteTransport::SharedMemory},
      {"a b/c?d&e%f", "h", 0, RemoteTransport::Flight, false, 1, true},
      {"caf\xc3\xa9", "a,b,c", 80, RemoteTransport::GRPC, true, 2147483647, false},
      {std::string(kMaxBoundaryName, 'n'), "h", 80},
  };
  for (const RemoteBinding& binding : bindings) {
    EXPECT_EQ(parse_binding(binding_url(binding)), binding) << binding_url(binding);
  }
  EXPECT_EQ(binding_url(bindings[1]), "shm://[::1]:65535/x");
}

TEST(Binding, WrongUrlsSayWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"host:9000/x", "the scheme is missing"},
      {"udp://host:9000/x", "choose one of shm, tcp, grpc, flight"},
      {"tcp://host/x", "the port is missing"},
      {"tcp://host:70000/x", "'70000' is no port"},
      {"tcp://host:/x", "'' is no port"},
      {"tcp://::1:9000/x", "an IPv6 address stands in brackets"},
      {"tcp://host:9000", "the name of the boundary is missing"},
      {"tcp://host:9000/", "the name of the boundary is missing"},
      {"tcp://:9000/x", "the host is missing"},
      {"tcp://ho st:9000/x", "the host is no name"},
      {"tcp://host:9000/x%2", "two hexadecimal digits"},
      {"tcp://host:9000/x%zz", "two hexadecimal digits"},
      {"tcp://host:9000/x?compress=yes", "compress is 0 or 1, not 'yes'"},
      {"tcp://host:9000/x?compress", "compress is 0 or 1, not ''"},
      {"tcp://host:9000/x?zip=1", "unknown setting 'zip'"},
      {"tcp://host:9000/x?bits=12", "bits is 32, 16, 8 or 4, not '12'"},
      {"tcp://host:9000/x?bits=", "bits is 32, 16, 8 or 4"},
      {"tcp://host:9000/x?gradient_bits=0", "gradient_bits is 32, 16, 8 or 4, not '0'"},
      {"tcp://host:9000/x?max_message_size=3000000000", "is no size"},
      {"tcp://host:9000/x?max_message_size=-1", "must not be negative"},
      {"tcp://host:9000/" + std::string(kMaxBoundaryName + 1, 'n'), "at most 256"},
  };
  for (const auto& [url, expected] : cases) {
    const std::string error = error_of([&] { (void)parse_binding(url); });
    EXPECT_THAT(error, HasSubstr("invalid_argument")) << url;
    EXPECT_THAT(error, HasSubstr(expected)) << url;
  }
}

TEST(Binding, TransportNamesReadBack) {
  for (const auto transport : {RemoteTransport::TCP, RemoteTransport::GRPC, RemoteTransport::Flight,
                               RemoteTransport::SharedMemory}) {
    EXPECT_EQ(transport_from_name(transport_name(transport)), transport);
  }
}

TEST(MakeTransport, APartThatTheProgramDoesNotLinkIsNamed) {
  for (const auto& [transport, target] : {std::pair{RemoteTransport::GRPC,
                                                    "harmonics::transport_grpc (of a build with "
                                                    "HARMONICS_WITH_GRPC=ON)"},
                                          std::pair{RemoteTransport::Flight,
                                                    "harmonics::transport_flight (of a build with "
                                                    "HARMONICS_WITH_FLIGHT=ON)"}}) {
    expect_error(ErrorCode::kUnimplemented, target, [&, transport = transport] {
      (void)make_transport({"x", "127.0.0.1", 1, transport}, {});
    });
  }
}

}  // namespace
}  // namespace harmonics::inline in_transport
