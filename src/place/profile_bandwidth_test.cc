#include <harmonics/place/profile_bandwidth.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>

#include <harmonics/base/error.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::HasSubstr;

// A socket of a client that does as it likes.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] bool connected() const { return connected_; }
  void send(const std::string& bytes) {
    ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
  bool connected_ = false;
};

std::string request(char direction, std::uint32_t bytes) {
  std::string text = "harm-bw1";
  text += direction;
  text += std::string(3, '\0');
  for (int i = 0; i < 4; ++i) text += static_cast<char>(bytes >> (8 * i));
  return text;
}

// The error that serve_one ends with; "" for none.
std::future<std::string> serve(BandwidthServer& server) {
  return std::async(std::launch::async, [&server] {
    try {
      server.serve_one();
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  });
}

TEST(HostPortTest, ReadsBothForms) {
  EXPECT_EQ(parse_host_port("9000").port, 9000);
  EXPECT_EQ(parse_host_port("9000").host, "");
  EXPECT_EQ(parse_host_port("node-1:80").host, "node-1");
  EXPECT_EQ(parse_host_port("[::1]:80").host, "::1");
  for (const char* text : {"", ":80", "node:", "node", "node:65536", "node:-1", "node:8x"}) {
    EXPECT_THROW((void)parse_host_port(text), Error) << text;
  }
}

TEST(Bandwidth, IsMeasuredBothWays) {
  BandwidthServer server({"127.0.0.1", 0});
  auto served = serve(server);
  const SteadyClock clock;
  EXPECT_GT(measure_bandwidth_mbps({"127.0.0.1", server.port()}, clock), 0);
  EXPECT_EQ(served.get(), "");
}

// Every look at it finds half a second gone.
class SlowClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds now() const override { return now_ += std::chrono::milliseconds(500); }

 private:
  mutable Nanoseconds now_{};
};

TEST(Bandwidth, IsBytesOverTime) {
  BandwidthServer server({"127.0.0.1", 0});
  auto served = serve(server);
  // The first block of 1 MiB, 8 Mbit, takes half a second.
  EXPECT_DOUBLE_EQ(measure_bandwidth_mbps({"127.0.0.1", server.port()}, SlowClock()), 16.0);
  EXPECT_EQ(served.get(), "");
}

TEST(Bandwidth, ServesTheNextClientAfterABrokenOne) {
  BandwidthServer server({"127.0.0.1", 0});
  for (const std::string& bad :
       {std::string("GET / HTTP/1.1\r\n\r\n"), request('x', 8), request('u', 0),
        request('u', kMaxBandwidthBytes + 1), request('d', 0xffffffff)}) {
    auto served = serve(server);
    RawClient client(server.port());
    ASSERT_TRUE(client.connected());
    client.send(bad);
    EXPECT_THAT(served.get(), HasSubstr("something else than a measurement"));
  }
  auto served = serve(server);
  EXPECT_GT(measure_bandwidth_mbps({"127.0.0.1", server.port()}, SlowClock()), 0);
  EXPECT_EQ(served.get(), "");
}

TEST(Bandwidth, AClientThatLeavesIsNamed) {
  BandwidthServer server({"127.0.0.1", 0});
  for (const auto& [bytes, text] : {std::pair(std::string("harm"), "in the middle of a message"),
                                    std::pair(request('u', 9) + "abc", "6 bytes to come")}) {
    auto served = serve(server);
    RawClient client(server.port());
    client.send(bytes);
    client.close();
    EXPECT_THAT(served.get(), HasSubstr(text));
  }
}

TEST(Bandwidth, AClientThatStallsMeetsTheDeadline) {
  BandwidthServer server({"127.0.0.1", 0}, std::chrono::milliseconds(20));
  auto served = serve(server);
  RawClient client(server.port());
  client.send(request('u', 100));
  EXPECT_THAT(served.get(), HasSubstr("deadline"));
}

TEST(Bandwidth, AConnectionHasSoManyRequestsAndNoMore) {
  BandwidthServer server({"127.0.0.1", 0});
  auto served = serve(server);
  RawClient client(server.port());
  for (int i = 0; i < kMaxBandwidthRequests; ++i) client.send(request('d', 1));
  EXPECT_EQ(served.get(), "");  // although the client has not closed
}

TEST(Bandwidth, AServerThatIsNoServerMeetsTheDeadline) {
  BandwidthServer silent({"127.0.0.1", 0});  // takes connections, answers none
  try {
    (void)measure_bandwidth_mbps({"127.0.0.1", silent.port()}, SteadyClock(),
                                 std::chrono::milliseconds(20));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded) << error.what();
  }
}

TEST(Bandwidth, NobodyThereIsAnErrorThatSaysWhatToDo) {
  std::uint16_t port = 0;
  { port = BandwidthServer({"127.0.0.1", 0}).port(); }
  try {
    (void)measure_bandwidth_mbps({"127.0.0.1", port}, SteadyClock());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("harmonics profile --serve"));
  }
  EXPECT_THROW((void)measure_bandwidth_mbps({"no-such-host.invalid", 1}, SteadyClock()), Error);
}

}  // namespace
}  // namespace harmonics::inline in_place
