// The protocol over real sockets: pages, requests, refusals, slow and broken clients.
#include <harmonics/serve/http_front.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include <harmonics/base/descriptor.h>
#include <harmonics/serve/http_door.h>

#include "error_testing.h"
#include "twice_testing.h"

namespace harmonics::inline in_serve {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A client that says bytes and hears bytes.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{20, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void say(const std::string& text) const {
    EXPECT_EQ(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// One answer: head and body; what there was when the other end closed.
  std::string hear() {
    while (!whole()) {
      char bytes[4096];
      const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) break;
      heard_.append(bytes, static_cast<std::size_t>(got));
    }
    const std::size_t end = whole() ? answer_bytes() : heard_.size();
    const std::string answer = heard_.substr(0, end);
    heard_.erase(0, end);
    return answer;
  }
  /// All that comes until the other end closes.
  std::string hear_out() {
    char bytes[4096];
    for (ssize_t got = 0; (got = ::recv(socket_.get(), bytes, sizeof bytes, 0)) > 0;) {
      heard_.append(bytes, static_cast<std::size_t>(got));
    }
    return heard_;
  }
  std::string ask(const std::string& text) {
    say(text);
    return hear();
  }
  [[nodiscard]] bool is_closed() {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, 0) == 0;
  }

 private:
  [[nodiscard]] std::size_t answer_bytes() const {
    const std::size_t head = heard_.find("\r\n\r\n");
    const std::size_t length = heard_.find("Content-Length: ");
    if (head == heard_.npos) return std::string::npos;
    if (length == heard_.npos || length > head) return head + 4;
    return head + 4 + std::stoul(heard_.substr(length + 16));
  }
  [[nodiscard]] bool whole() const { return answer_bytes() <= heard_.size(); }

  Descriptor socket_;
  std::string heard_;
};

std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: here\r\n" + headers + "\r\n";
}
std::string post(const std::string& path, const std::string& body,
                 const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: here\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const char* const kInfer = "/v2/models/twice/infer";
const char* const kBody =
    R"({"id":"7","inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1.5,-2]}]})";

class Front : public ::testing::Test {
 protected:
  Front() {
    while (service_.state() != ServiceState::kReady) std::this_thread::yield();
  }
  static ServingTerms terms() {
    ServingTerms made;
    made.queue_rows = 2;
    made.in_flight = 1;
    made.max_wait = Nanoseconds(0);
    return made;
  }
  SteadyClock clock_;
  InferenceService service_{twice_card(2), terms(), clock_};
  TwiceStream stream_{service_};
};

TEST_F(Front, AnswersThePagesOfTheProtocol) {
  HttpFront front(service_, {"127.0.0.1", 0}, {});
  Client client(front.port());
  EXPECT_THAT(client.ask(get("/v2/health/live")), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(client.ask(get("/v2/health/ready")), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(client.ask(get("/v2")), HasSubstr("\"name\":\"harmonics\""));
  EXPECT_THAT(client.ask(get("/v2/models/twice")), HasSubstr("\"datatype\":\"FP32\""));
  EXPECT_THAT(client.ask(get("/v2/models/twice/versions/1")), HasSubstr("\"name\":\"twice\""));
  EXPECT_THAT(client.ask(get("/v2/models/twice/ready")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.ask(get("/metrics")), HasSubstr("harmonics_serve_requests_total"));
  EXPECT_THAT(client.ask(get("/v2/models/other/ready")), HasSubstr("no model 'other'"));
  EXPECT_THAT(client.ask(get("/v2/models/twice/versions/2")), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(client.ask(get("/v2/nothing")), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(client.ask(get(kInfer)), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(client.ask(post("/v2", "")), StartsWith("HTTP/1.1 405"));
}

TEST_F(Front, AnswersRequestsOneAfterAnotherOnOneConnection) {
  HttpFront front(service_, {"127.0.0.1", 0}, {});
  Client client(front.port());
  for (int i = 0; i < 3; ++i) {
    const std::string answer = client.ask(post(kInfer, kBody));
    EXPECT_THAT(answer, HasSubstr("\"data\":[3,-4]"));
    EXPECT_THAT(answer, HasSubstr("\"id\":\"7\""));
  }
  client.say(post(kInfer, kBody) + post(kInfer, kBody));
  EXPECT_THAT(client.hear(), HasSubstr("\"data\":[3,-4]"));
  EXPECT_THAT(client.hear(), HasSubstr("\"data\":[3,-4]"));
}

TEST_F(Front, BytesGoBothWays) {
  HttpFront front(service_, {"127.0.0.1", 0}, {});
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],)"
      R"("parameters":{"binary_data_output":true}})";
  const float numbers[] = {0.25F, 8.0F};
  const std::string body = json + std::string(reinterpret_cast<const char*>(numbers), 8);
  Client client(front.port());
  const std::string answer = client.ask(post(
      kInfer, body, "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n"));
  EXPECT_THAT(answer, HasSubstr("Inference-Header-Content-Length: "));
  float twice[2];
  std::memcpy(twice, answer.data() + answer.size() - sizeof twice, sizeof twice);
  EXPECT_EQ(twice[0], 0.5F);
  EXPECT_EQ(twice[1], 16.0F);
}

TEST_F(Front, BadRequestsAreSaidToBe) {
  HttpFront front(service_, {"127.0.0.1", 0}, {});
  Client client(front.port());
  EXPECT_THAT(client.ask(post(kInfer, "hello")), HasSubstr("not valid JSON"));
  EXPECT_THAT(client.ask(post(kInfer, "{}")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(client.ask(post(kInfer, R"({"inputs":[]})")), HasSubstr("lacks input 'x'"));
  EXPECT_THAT(
      client.ask(post(
          kInfer, R"({"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]})")),
      HasSubstr("takes the shape [rows, 2]"));
  EXPECT_THAT(client.ask(post("/v2/models/no/infer", kBody)), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(client.ask(post(kInfer, kBody, "Inference-Header-Content-Length: 1x\r\n")),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(client.ask(post(kInfer, kBody, "Content-Encoding: gzip\r\n")),
              StartsWith("HTTP/1.1 415"));
  EXPECT_THAT(client.ask("POST / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_TRUE(client.is_closed());
  EXPECT_THAT(Client(front.port()).ask("hello\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(Front, OverloadIsRefusedAndSaysWhenToComeAgain) {
  HttpFront front(service_, {"127.0.0.1", 0}, {});
  stream_.hold();
  std::vector<std::unique_ptr<Client>> clients;
  std::string refused;
  // One under way and two that wait are all there is room for.
  for (int i = 0; i < 8 && refused.empty(); ++i) {
    const auto taken = [&] {
      const ServiceFigures now = service_.figures();
      return now.waiting_rows + now.in_flight + now.refused;
    };
    const std::int64_t before = taken();
    clients.push_back(std::make_unique<Client>(front.port()));
    clients.back()->say(post(kInfer, kBody));
    while (taken() == before) std::this_thread::yield();
    if (service_.figures().refused > 0) refused = clients.back()->hear();
  }
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1"));
  stream_.go();
  clients.pop_back();
  for (const auto& client : clients) EXPECT_THAT(client->hear(), HasSubstr("\"data\":[3,-4]"));
}

TEST_F(Front, ATokenIsNeededForAllButHealth) {
  HttpFront front(service_, {"127.0.0.1", 0}, {"0123456789abcdef", "", "", ""});
  Client client(front.port());
  EXPECT_THAT(client.ask(get("/v2/health/ready")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.ask(get("/v2")), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(client.ask(post(kInfer, kBody)), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(client.ask(post(kInfer, kBody, "Authorization: Bearer wrong\r\n")),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(client.ask(post(kInfer, kBody, "Authorization: Bearer 0123456789abcdef\r\n")),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(Front, TheEndAnswersWhoAskedAndLetsNobodyIn) {
  auto front = std::make_unique<HttpFront>(service_, ListenAddress{"127.0.0.1", 0}, FrontAccess{});
  Client client(front->port());
  stream_.hold();
  client.say(post(kInfer, kBody));
  while (service_.figures().in_flight == 0) std::this_thread::yield();
  front.reset();
  EXPECT_THAT(client.hear(), StartsWith("HTTP/1.1 503"));
  EXPECT_TRUE(client.is_closed());
  stream_.go();
}

ServingDoor::Terms quick_terms() {
  return {{"127.0.0.1", 0}, {}, 1 << 20, std::chrono::milliseconds(100)};
}

TEST(ServingDoor, SlowClientsAreCut) {
  ServingDoor door(quick_terms(), [](HttpQuery, const ServingDoor::Answer& answer) {
    answer({200, "text/plain", "hello", {}});
  });
  Client silent(door.port());
  Client slow(door.port());
  slow.say("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  Client quick(door.port());
  EXPECT_THAT(quick.ask(get("/")), HasSubstr("hello"));
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(slow.is_closed());
}

TEST(ServingDoor, ExpectationsAndThrowsAreAnswered) {
  ServingDoor door(quick_terms(), [](const HttpQuery& query, const ServingDoor::Answer& answer) {
    if (query.path == "/throw") fail(ErrorCode::kInternal, "oh");
    answer({200, "text/plain", query.body, {}});
  });
  Client client(door.port());
  EXPECT_THAT(client.ask("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"),
              StartsWith("HTTP/1.1 100 Continue"));
  EXPECT_THAT(client.ask("abc"), HasSubstr("\r\n\r\nabc"));
  EXPECT_THAT(client.ask(get("/throw")), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(client.ask("HEAD /x HTTP/1.1\r\n\r\n"), HasSubstr("Content-Length: 0"));
}

TEST(ServingDoor, AStreamGoesOnUntilEitherSideEndsIt) {
  std::shared_ptr<HttpStream> stream = std::make_shared<HttpStream>();
  ServingDoor door(quick_terms(), [&](HttpQuery query, const ServingDoor::Answer& answer) {
    EXPECT_EQ(query.arguments, "a=1&b=2");
    answer({200, "text/event-stream", {}, {}, stream});
  });
  EXPECT_TRUE(stream->send("before anyone asked, "));
  {
    Client client(door.port());
    client.say("GET /events?a=1&b=2 HTTP/1.1\r\n\r\n");
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(stream->send("piece "));
    stream->end();
    const std::string heard = client.hear_out();
    EXPECT_THAT(heard, StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(heard, HasSubstr("before anyone asked, piece piece"));
    EXPECT_EQ(heard.find("Content-Length"), heard.npos);
    EXPECT_TRUE(heard.ends_with("piece ")) << heard;
    EXPECT_FALSE(stream->send("too late"));
  }
  stream = std::make_shared<HttpStream>();
  auto client = std::make_unique<Client>(door.port());
  client->say("GET /events?a=1&b=2 HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(stream->send("hello"));
  client.reset();
  // Whoever listened has gone: that shows with the next words, or the ones after.
  for (int i = 0; i < 1'000'000 && stream->send("still there?"); ++i) std::this_thread::yield();
  EXPECT_FALSE(stream->send("still there?"));
}

TEST(ServingDoor, WhoTakesTooLittleOfAStreamIsCut) {
  const auto stream = std::make_shared<HttpStream>();
  ServingDoor door(quick_terms(), [&](HttpQuery, const ServingDoor::Answer& answer) {
    answer({200, "text/event-stream", {}, {}, stream});
  });
  Client client(door.port());
  client.say("GET /events HTTP/1.1\r\n\r\n");
  const std::string piece(1 << 20, 'x');
  std::size_t taken = 0;
  while (taken < 1000 && stream->send(piece)) ++taken;
  EXPECT_LT(taken, 1000U) << "what waits has a ceiling";
}

TEST(ServingDoor, IdleConnectionsMakeRoomForNewOnes) {
  ServingDoor::Terms terms = quick_terms();
  terms.patience = std::chrono::seconds(60);
  ServingDoor door(terms, [](HttpQuery, const ServingDoor::Answer& answer) {
    answer({200, "text/plain", "hello", {}});
  });
  std::vector<std::unique_ptr<Client>> idle;
  for (std::size_t i = 0; i < ServingDoor::kMaxConnections; ++i) {
    idle.push_back(std::make_unique<Client>(door.port()));
  }
  EXPECT_THAT(Client(door.port()).ask(get("/")), HasSubstr("hello"));
  EXPECT_TRUE(idle.front()->is_closed());
}

}  // namespace
}  // namespace harmonics::inline in_serve
