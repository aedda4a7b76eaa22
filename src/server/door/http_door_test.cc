#include "http_door.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

namespace harmonics::inline in_server {
namespace {

using std::chrono::milliseconds;

/// A connection to the door; reads until the other end closes.
class Visitor {
 public:
  explicit Visitor(const HttpDoor& door) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(door.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Visitor() { ::close(descriptor_); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  void say(const std::string& text) const {
    ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// Whether the other end closes within `patience`.
  [[nodiscard]] bool is_cut(milliseconds patience) const {
    pollfd wanted{descriptor_, POLLIN, 0};
    return ::poll(&wanted, 1, static_cast<int>(patience.count())) > 0;
  }
  [[nodiscard]] std::string hear() const {
    std::string text;
    char bytes[512];
    for (ssize_t got = 0; (got = ::recv(descriptor_, bytes, sizeof bytes, 0)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  const int descriptor_;
};

std::string asked(const HttpDoor& door, const std::string& request) {
  const Visitor visitor(door);
  visitor.say(request);
  return visitor.hear();
}

std::optional<HttpAnswer> pages(const std::string& path) {
  if (path == "/broken") throw std::runtime_error("it is broken");
  if (path != "/page") return std::nullopt;
  return HttpAnswer{200, "text/plain", "hello\n"};
}

constexpr milliseconds kShort(200);
constexpr const char* kGet = "GET /page?x=1 HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(HttpDoor, AnswersPagesAndSaysWhatIsNone) {
  const HttpDoor door("127.0.0.1", 0, pages);
  const std::string page = asked(door, kGet);
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200 OK\r\n")) << page;
  EXPECT_NE(page.find("Content-Length: 6\r\n"), std::string::npos) << page;
  EXPECT_TRUE(page.ends_with("\r\n\r\nhello\n")) << page;
  EXPECT_TRUE(asked(door, "HEAD /page HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
  EXPECT_NE(asked(door, "GET /other HTTP/1.1\r\n\r\n").find(" 404 "), std::string::npos);
  EXPECT_NE(asked(door, "POST /page HTTP/1.1\r\n\r\n").find(" 405 "), std::string::npos);
  EXPECT_NE(asked(door, "hello\r\n\r\n").find(" 400 "), std::string::npos);
  EXPECT_NE(asked(door, "GET /broken HTTP/1.1\r\n\r\n").find("it is broken"), std::string::npos);
  EXPECT_THROW(HttpDoor("127.0.0.1", static_cast<std::uint16_t>(door.port()), pages),
               std::exception);
}

TEST(HttpDoor, WhoIsSlowHoldsUpNobodyAndIsCut) {
  const HttpDoor door("127.0.0.1", 0, pages, kShort);
  std::vector<std::unique_ptr<Visitor>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<Visitor>(door));
    slow.back()->say("GET /page HTTP/1.1\r\nX: ");
  }
  EXPECT_NE(asked(door, kGet).find("hello"), std::string::npos);
  for (const auto& one : slow) EXPECT_EQ(one->hear(), "") << "cut without an answer";
}

TEST(HttpDoor, OneThatDripsIsCutAllTheSame) {
  const HttpDoor door("127.0.0.1", 0, pages, kShort);
  const Visitor slow(door);
  const auto begin = std::chrono::steady_clock::now();
  while (!slow.is_cut(kShort / 20)) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
    slow.say("x");
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kShort);
}

TEST(HttpDoor, TheCeilingOfConnectionsHolds) {
  const HttpDoor door("127.0.0.1", 0, pages, std::chrono::hours(1));
  std::vector<std::unique_ptr<Visitor>> silent;
  for (std::size_t i = 0; i < HttpDoor::kMaxConnections + 8; ++i) {
    silent.push_back(std::make_unique<Visitor>(door));
  }
  EXPECT_NE(asked(door, kGet).find("hello"), std::string::npos);
  EXPECT_EQ(silent.front()->hear(), "") << "the oldest goes first";
}

TEST(HttpDoor, ARequestHasAnEnd) {
  const HttpDoor door("127.0.0.1", 0, pages);
  const std::string long_one =
      "GET /page HTTP/1.1\r\nX: " + std::string(HttpDoor::kMaxRequestBytes, 'x');
  const std::string answer = asked(door, long_one);
  EXPECT_TRUE(answer.empty() || answer.find(" 431 ") != std::string::npos) << answer;
  EXPECT_NE(asked(door, kGet).find("hello"), std::string::npos);
}

}  // namespace
}  // namespace harmonics::inline in_server
