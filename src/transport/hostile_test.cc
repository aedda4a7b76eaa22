// Peers that are no peers: they get no crash, no memory and no say in what others do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include <harmonics/base/log.h>
#include <harmonics/base/random.h>

#include <error_testing.h>

#include "endpoint_testing.h"
#include "frame/frame_testing.h"
#include "reception.h"
#include "session/greet.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A raw connection to a listening end.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port)
      : socket_(connect_to(resolve("127.0.0.1", port).front(), patient(), WakeEvent())) {}
  /// Takes over after the greeting.
  explicit Stranger(const Stream& greeted) : socket_(::dup(greeted.fd())) {}

  void say(ByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0 && errno == EAGAIN) {
        (void)wait_for(socket_.get(), POLLOUT, patient(), nullptr);
      } else if (count <= 0) {
        return;
      } else {
        bytes = bytes.subspan(static_cast<std::size_t>(count));
      }
    }
  }
  void say(std::string_view text) { say(bytes_of(text)); }

  /// What comes back until the other side hangs up.
  std::string listen_to_the_end() {
    std::string out;
    char buffer[4096];
    for (;;) {
      const ssize_t count = ::recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (count > 0) {
        out.append(buffer, static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EAGAIN) {
        return out;
      } else {
        (void)wait_for(socket_.get(), POLLIN, patient(), nullptr);
      }
    }
  }

  /// Until it is over or the other side hangs up.
  void listen_while(const std::atomic<bool>& over) {
    char byte = 0;
    while (!over && ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) {
      (void)wait_for(socket_.get(), POLLIN, deadline_in(std::chrono::milliseconds(50)), nullptr);
    }
  }

  [[nodiscard]] Descriptor release() { return std::move(socket_); }

 private:
  Descriptor socket_;
};

Bytes hello_for(const std::string& boundary) {
  Greeting hello;
  hello.boundary = boundary;
  hello.instance = {1, 1};
  hello.window = {1000, 4};
  return control_bytes(FrameType::kHello, encode_greeting(hello));
}

class Hostile : public VisitedByStrangers {
 protected:
  Hostile() {
    TransportOptions options;
    options.handshake_timeout = std::chrono::milliseconds(300);
    options.window = {1 << 20, 64};
    RemoteBinding binding = named("x");
    binding.max_message_size = 1 << 20;
    end_ = listening_end(binding, options);
  }
};

TEST_F(Hostile, HttpIsToldApart) {
  Stranger stranger(port());
  stranger.say("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: some browser of a user\r\n\r\n");
  EXPECT_EQ(stranger.listen_to_the_end(), "");
  expect_alive();
  EXPECT_THAT(log(), HasSubstr("speaks HTTP"));
}

TEST_F(Hostile, RandomBytesAreRefused) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed, "hostile");
    Bytes noise(64 + random.below(5000));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(256));
    Stranger stranger(port());
    stranger.say(noise);
    EXPECT_EQ(stranger.listen_to_the_end(), "");
  }
  expect_alive();
}

TEST_F(Hostile, HugeLengthsInTheGreetingAreRefused) {
  FrameHeader header;
  header.type = FrameType::kHello;
  header.meta_bytes = kMaxGreetingBytes + 1;
  Stranger stranger(port());
  stranger.say(encode_header(header));
  EXPECT_EQ(stranger.listen_to_the_end(), "");
  expect_alive();
  EXPECT_THAT(log(), HasSubstr("bytes of meta, at most"));
}

TEST_F(Hostile, AMessageInsteadOfAGreetingIsRefused) {
  Stranger stranger(port());
  stranger.say(frame_bytes(one()));
  EXPECT_EQ(stranger.listen_to_the_end(), "");
  expect_alive();
  EXPECT_THAT(log(), HasSubstr("before the greeting"));
}

TEST_F(Hostile, SilentVisitorsHoldUpNobodyForLong) {
  std::deque<Stranger> crowd;
  for (std::size_t i = 0; i < kMaxGreetings + 5; ++i) crowd.emplace_back(port());
  expect_alive();
  for (Stranger& stranger : crowd) EXPECT_EQ(stranger.listen_to_the_end(), "");
}

// Forty that come back at once whenever they are turned away: the peer gets in all the same, and
// the log stays short.
TEST_F(Hostile, ACrowdThatComesBackKeepsNobodyOutAndFillsNoLog) {
  std::atomic<bool> over = false;
  std::vector<std::jthread> crowd;
  for (int i = 0; i < 40; ++i) {
    crowd.emplace_back([&] {
      while (!over) {
        Stranger stranger(port());
        stranger.listen_while(over);
      }
    });
  }
  while (log().find("turned away") == std::string::npos) std::this_thread::yield();
  expect_alive();
  over = true;
  crowd.clear();
  EXPECT_LT(capture_.lines().size(), 50u) << log();
}

TEST_F(Hostile, NamesOfStrangersAreShownEscaped) {
  Stranger stranger(port());
  stranger.say(hello_for("\x1b[2Jx\nharmonics: all is well\n"));
  EXPECT_THAT(stranger.listen_to_the_end(), HasSubstr(R"(no boundary '\x1b[2Jx\nharmonics)"));
  expect_alive();
  EXPECT_THAT(log(), HasSubstr(R"(no boundary '\x1b[2Jx\nharmonics: all is well\n' listens)"));
}

TEST_F(Hostile, AnotherVersionIsToldSo) {
  Bytes bytes = hello_for("x");
  bytes[4] = std::byte{kFrameVersion - 1};
  Stranger stranger(port());
  stranger.say(bytes);
  EXPECT_THAT(stranger.listen_to_the_end(), HasSubstr("speaks version 1 of the frame format"));
  expect_alive();
}

class HostileToAToken : public VisitedByStrangers {
 protected:
  HostileToAToken() {
    options_.token = "secret 81b2c4f97d0e";
    end_ = listening_end(named("x"), options_);
  }
  /// What whoever asks for that boundary without the token hears.
  std::string answer_about(const std::string& boundary) {
    RemoteBinding binding = end_->binding();
    binding.name = boundary;
    binding.listen = false;
    TransportOptions guess;
    guess.token = "guess 7c31e85fa902b";
    const TransportPtr stranger = make_transport(binding, guess);
    std::string answer = error_of([&] { (void)stranger->receive(patient()); });
    const std::size_t name = answer.find("'" + boundary + "'");
    return name == answer.npos ? answer : answer.replace(name, boundary.size() + 2, "NAME");
  }
  TransportOptions options_;
};

TEST_F(HostileToAToken, WhichBoundariesThereAreIsToldToNobodyWithoutIt) {
  const std::string about_ours = answer_about("x");
  EXPECT_THAT(about_ours, HasSubstr("another token"));
  EXPECT_EQ(answer_about("y"), about_ours);
}

TEST_F(HostileToAToken, WhoKnowsItIsToldThatABoundaryIsNotThere) {
  RemoteBinding binding = end_->binding();
  binding.name = "y";
  binding.listen = false;
  const TransportPtr friendly = make_transport(binding, options_);
  std::string error;
  do {
    error = error_of([&] { (void)friendly->receive(deadline_in(std::chrono::milliseconds(50))); });
  } while (error.find("no boundary 'y' listens") == std::string::npos);
  // Quiet at first: parts come in any order.
  while (log().find("refused: no boundary 'y'") == std::string::npos) std::this_thread::yield();
  for (const std::string& line : capture_.lines()) {
    if (line.find("refused: no boundary 'y'") == std::string::npos) continue;
    EXPECT_TRUE(line.starts_with("debug ")) << line;
  }
}

// A peer that greets well and then breaks the rules.
class FalseFriend : public Hostile, private Greeter {
 protected:
  FalseFriend() {
    Stranger stranger(port());
    (void)greet_as_connector(make_plain_stream(stranger.release(), "the end under test"), *this,
                             patient(), nullptr);
  }

  void send_message(const Message& message, Sequence sequence,
                    const std::function<void(FrameHeader&)>& change = {}) {
    OutgoingMessage out = encode_message(message, Codec::kNone);
    out.header.boundary = boundary_id("x");
    out.header.sequence = sequence;
    if (change) change(out.header);
    stranger_->say(frame_bytes(out));
  }

  std::string receive_error() {
    return error_of([&] { (void)end_->receive(patient()); });
  }

  Greeting greeting() override {
    Greeting out;
    out.boundary = "x";
    out.instance = {1, 1};
    out.attempt = 1;
    out.window = {1000, 4};
    return out;
  }
  const std::string& token() const override { return token_; }
  void judge(const Greeting&) override {}
  ConnectionPtr make_connection(StreamPtr stream, const Agreement&, Deadline) override {
    stranger_ = std::make_unique<Stranger>(*stream);
    stream_ = std::move(stream);
    return nullptr;
  }
  void adopt(const GreetedConnection&) override {}
  void note_refusal(const std::string&) override {}

  std::string token_;
  StreamPtr stream_;
  std::unique_ptr<Stranger> stranger_;
};

TEST_F(FalseFriend, GoodFramesArriveFirst) {
  send_message(one(), 1);
  EXPECT_TRUE(same_message(end_->receive(patient()).value(), one()));
}

TEST_F(FalseFriend, ATensorAboveTheLimitEndsIt) {
  Message large;
  large.tensor = Tensor::zeros({(1 << 18) + 1});
  send_message(large, 1);
  EXPECT_THAT(receive_error(), AllOf(HasSubstr("resource_exhausted"), HasSubstr("'x'"),
                                     HasSubstr("at most 1048576")));
}

TEST_F(FalseFriend, AnnouncedBytesAreNotAllocatedUnlessTheyFit) {
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  send_message(one(), 1, [](FrameHeader& header) { header.payload_bytes = 1ULL << 45; });
  // The frame contradicts itself, so the connection is dropped; the rightful peer has this
  // instance.
  (void)stranger_->listen_to_the_end();
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "kilobytes";
}

TEST_F(FalseFriend, AGapEndsIt) {
  send_message(one(), 2);
  EXPECT_THAT(receive_error(), HasSubstr("message 2 came where 1 was expected"));
}

TEST_F(FalseFriend, MoreThanItsCreditsEndsIt) {
  Message message;
  for (Sequence i = 1; i <= 65; ++i) send_message(message, i);
  (void)stranger_->listen_to_the_end();
  std::string error;
  while ((error = receive_error()) == "no error") continue;
  EXPECT_THAT(error, HasSubstr("breaks the credits"));
}

TEST_F(FalseFriend, AnotherBoundarysFrameEndsIt) {
  send_message(one(), 1, [](FrameHeader& header) { header.boundary = boundary_id("y"); });
  EXPECT_THAT(receive_error(), HasSubstr("another boundary"));
}

TEST_F(FalseFriend, ProgressThatCannotBeEndsIt) {
  send_message(one(), 1, [](FrameHeader& header) { header.progress = {7, 7}; });
  EXPECT_THAT(receive_error(), HasSubstr("acknowledges message 7"));
}

TEST_F(FalseFriend, AGreetingInTheMiddleEndsIt) {
  FrameHeader header;
  header.type = FrameType::kWelcome;
  header.boundary = boundary_id("x");
  stranger_->say(encode_header(header));
  EXPECT_THAT(receive_error(), HasSubstr("after the greeting"));
}

// Damage may have happened on the way: the connection goes, the boundary stays.
TEST_F(FalseFriend, DamageCostsTheLinkOnly) {
  Bytes bytes = frame_bytes(one());
  bytes[70] ^= std::byte{1};
  stranger_->say(bytes);
  (void)stranger_->listen_to_the_end();
  EXPECT_THAT(error_of([&] { (void)end_->receive(deadline_in(Nanoseconds(0))); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("CRC")));
}

}  // namespace
}  // namespace harmonics::inline in_transport
