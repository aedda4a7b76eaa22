// What is gRPC's own: servers that boundaries share, who is let in, strangers, replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <deque>
#include <thread>

#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/transport/hosts.h>

#include <error_testing.h>

#include "endpoint_testing.h"
#include "frame/frame_testing.h"
#include "grpc_call.h"
#include "reception.h"
#include "tls_testing.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RemoteBinding boundary(const std::string& name) { return named(name, RemoteTransport::GRPC); }

// --- a process that dies: first, while this program has a single thread ---

TEST(GrpcProcess, APeerThatIsKilledIsABrokenLinkAndARestartedOneAnError) {
  RemoteBinding binding{"x", "127.0.0.1", reserved_port(), RemoteTransport::GRPC};
  ListeningProcess peer(binding);
  binding.listen = false;
  const TransportPtr end = make_transport(binding);
  EXPECT_TRUE(same_message(end->receive(patient()).value(), one()));
  peer.kill();
  EXPECT_THAT(error_with(*end, "there is no link"),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("'x'"), HasSubstr("message 2")));
  binding.listen = true;
  const TransportPtr restarted = make_transport(binding);
  EXPECT_THAT(receive_error(*end), AllOf(HasSubstr("aborted"), HasSubstr("checkpoint")));
}

// --- who listens ---

TEST(GrpcEndpoints, WhoeverComesFirstListens) {
  RemoteBinding binding = boundary("x");
  binding.host = "localhost";
  const TransportPtr first = make_transport(binding);
  EXPECT_NE(first->binding().port, 0);
  const TransportPtr second = make_transport(first->binding());
  expect_talk(*first, *second);
}

TEST(GrpcEndpoints, BoundariesShareAServer) {
  const TransportPtr a0 = listening_end(boundary("a"));
  RemoteBinding b = a0->binding();
  b.name = "b";
  // Before the other end listens, and after.
  b.listen = false;
  const TransportPtr b1 = make_transport(b);
  b.listen = true;
  const TransportPtr b0 = make_transport(b);
  const TransportPtr a1 = connecting_end(*a0);
  expect_talk(*a0, *a1);
  expect_talk(*b0, *b1);
  EXPECT_EQ(a0->binding().port, b0->binding().port);
  EXPECT_THAT(error_of([&] { (void)make_transport(b); }), HasSubstr("already_exists"));
}

TEST(GrpcEndpoints, APortOfAnotherProgramIsAnErrorForWhoMustListen) {
  const auto taken = listen_on(resolve("127.0.0.1", 0).front());
  RemoteBinding binding{"x", "127.0.0.1", bound_address(*taken).port(), RemoteTransport::GRPC};
  binding.listen = true;
  EXPECT_THAT(error_of([&] { (void)make_transport(binding); }),
              AllOf(HasSubstr("already_exists"), HasSubstr("another port")));
}

TEST(GrpcEndpoints, ALargeTensorArrivesInAlignedMemoryAndIsCounted) {
  const auto [a, b] = local_pair(boundary("x"));
  Message large;
  large.tensor = Tensor::empty({3 << 20});
  float value = 0;
  for (float& to : large.tensor.mutable_values<float>()) to = value++;
  a->send(large, patient());
  const Message there = b->receive(patient()).value();
  EXPECT_TRUE(same_message(there, large));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there.tensor.bytes().data()) % kFrameAlignment, 0u);
  EXPECT_EQ(a->stats().socket_payload_sent, large.tensor.bytes().size());
  EXPECT_EQ(b->stats().socket_payload_received, large.tensor.bytes().size());
}

// --- who is let in ---

TEST(GrpcGreeting, AnotherRunIsRefused) {
  TransportOptions monday, tuesday;
  monday.run = "monday";
  tuesday.run = "tuesday";
  const TransportPtr listening = listening_end(boundary("x"), monday);
  const TransportPtr wrong = connecting_end(*listening, tuesday);
  EXPECT_THAT(receive_error(*wrong),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("monday"), HasSubstr("tuesday")));
  const TransportPtr right = connecting_end(*listening, monday);
  expect_talk(*listening, *right);
}

TEST(GrpcGreeting, AnUnknownBoundaryIsNamed) {
  const TransportPtr listening = listening_end(boundary("x"));
  RemoteBinding binding = listening->binding();
  binding.name = "y";
  binding.listen = false;
  EXPECT_THAT(error_with(*make_transport(binding), "no boundary"),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("no boundary 'y' listens")));
}

TEST(GrpcGreeting, TokensMustAgree) {
  TransportOptions with, other, without;
  with.token = "secret 81b2c4f97d0e";
  other.token = "Secret 81b2c4f97d0e";
  const TransportPtr guarded = listening_end(boundary("x"), with);
  EXPECT_THAT(receive_error(*connecting_end(*guarded, without)),
              AllOf(HasSubstr("unauthenticated"), HasSubstr("asks for a token")));
  EXPECT_THAT(receive_error(*connecting_end(*guarded, other)),
              AllOf(HasSubstr("unauthenticated"), HasSubstr("another token")));
  const TransportPtr friendly = connecting_end(*guarded, with);
  expect_talk(*guarded, *friendly);
}

TEST(GrpcTls, OneEndWithoutTlsGetsNowhere) {
  const LogCapture capture;
  const TestCertificates certificates;
  TransportOptions with;
  with.tls = certificates.options();
  const TransportPtr secure = listening_end(boundary("x"), with);
  EXPECT_THAT(error_with(*connecting_end(*secure), "no gRPC with"), HasSubstr("deadline_exceeded"));
  const TransportPtr open = listening_end(boundary("x"));
  EXPECT_THAT(error_with(*connecting_end(*open, with), "no gRPC with"),
              HasSubstr("deadline_exceeded"));
}

// --- strangers ---

// Speaks first and never listens.
class LoudServer {
 public:
  explicit LoudServer(std::string words) : words_(std::move(words)) {
    thread_ = std::thread([this] { run(); });
  }
  ~LoudServer() {
    stop_.signal();
    thread_.join();
  }
  [[nodiscard]] std::uint16_t port() const { return bound_address(socket_).port(); }

 private:
  void run() {
    std::deque<Descriptor> kept;
    for (;;) {
      pollfd watched[2] = {{socket_.get(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
      (void)::poll(watched, 2, -1);
      if (watched[1].revents != 0) return;
      std::string peer;
      kept.push_back(accept_from(socket_, peer));
      (void)::send(kept.back().get(), words_.data(), words_.size(), MSG_NOSIGNAL);
    }
  }

  const std::string words_;
  const Descriptor socket_ = std::move(*listen_on(resolve("127.0.0.1", 0).front()));
  WakeEvent stop_;
  std::thread thread_;
};

TransportPtr connecting_to(std::uint16_t port, const TransportOptions& options = {}) {
  RemoteBinding binding{"x", "127.0.0.1", port, RemoteTransport::GRPC};
  binding.listen = false;
  return make_transport(binding, options);
}

TEST(GrpcStrangers, AServerThatSpeaksPlainHttpIsToldApart) {
  const LogCapture capture;
  const LoudServer server("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(receive_error(*connecting_to(server.port())),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("speaks HTTP/1")));
}

TEST(GrpcStrangers, AServerThatSpeaksNoiseIsTriedUntilTheDeadline) {
  const LogCapture capture;
  const LoudServer server(std::string(5000, '\x17'));
  EXPECT_THAT(error_with(*connecting_to(server.port()), "no gRPC with"),
              HasSubstr("deadline_exceeded"));
}

TEST(GrpcStrangers, AServerWithoutBoundariesIsToldApart) {
  grpc::CallbackGenericService other;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&other);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  EXPECT_THAT(receive_error(*connecting_to(static_cast<std::uint16_t>(port))),
              AllOf(HasSubstr("unimplemented"), HasSubstr("no Harmonics boundary")));
  server->Shutdown();
}

class GrpcVisitors : public VisitedByStrangers {
 protected:
  explicit GrpcVisitors(Nanoseconds handshake_timeout = std::chrono::milliseconds(300)) {
    TransportOptions options;
    options.handshake_timeout = handshake_timeout;
    options.window = {1 << 20, 64};
    RemoteBinding binding = boundary("x");
    binding.max_message_size = 1 << 20;
    end_ = listening_end(binding, options);
  }
  [[nodiscard]] SocketAddress address() const { return resolve("127.0.0.1", port()).front(); }

  /// A call of our method by a stranger.
  [[nodiscard]] GrpcPipePtr call() const {
    return start_grpc_call(
        grpc::CreateChannel("ipv4:" + address().text(), grpc::InsecureChannelCredentials()),
        "the end under test");
  }
  static void say(GrpcPipe& pipe, Bytes bytes) {
    Piece piece;
    piece.head = std::move(bytes);
    pipe.write(std::move(piece));
  }
  /// Reads until the call is over.
  static std::string listen_to_the_end(GrpcPipe& pipe) {
    std::array<std::byte, 1024> dropped;
    const Deadline limit = patient();
    return error_of([&] {
      while (std::chrono::steady_clock::now() < limit) {
        if (pipe.read(dropped) == 0) pipe.wait(limit, false);
      }
    });
  }
};

// Says something on a bare socket and waits until the other side has hung up.
void say_on_a_socket(const SocketAddress& address, const std::string& words) {
  const Descriptor socket = connect_to(address, patient(), WakeEvent());
  (void)::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
  std::array<char, 4096> dropped;
  for (;;) {
    const ssize_t count = ::recv(socket.get(), dropped.data(), dropped.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return;
    if (count < 0) (void)wait_for(socket.get(), POLLIN, patient(), nullptr);
  }
}

TEST_F(GrpcVisitors, PlainHttpAndNoiseAreHungUpOn) {
  say_on_a_socket(address(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Random random(3, "grpc strangers");
  for (int i = 0; i < 10; ++i) {
    std::string noise(64 + random.below(2000), '\0');
    for (char& c : noise) c = static_cast<char>(random.below(256));
    say_on_a_socket(address(), noise);
  }
  expect_alive();
}

TEST_F(GrpcVisitors, NoiseInsteadOfAGreetingIsRefused) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed, "grpc noise");
    Bytes noise(1 + random.below(5000));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(256));
    const GrpcPipePtr pipe = call();
    say(*pipe, noise);
    EXPECT_THAT(listen_to_the_end(*pipe), HasSubstr("unavailable"));
  }
  expect_alive();
}

TEST_F(GrpcVisitors, AMessageInsteadOfAGreetingIsRefused) {
  const GrpcPipePtr pipe = call();
  say(*pipe, frame_bytes(one()));
  EXPECT_THAT(listen_to_the_end(*pipe), HasSubstr("unavailable"));
  expect_alive();
  while (log().find("before the greeting") == std::string::npos) std::this_thread::yield();
}

TEST_F(GrpcVisitors, SilentVisitorsHoldUpNobodyForLong) {
  std::deque<GrpcPipePtr> crowd;
  for (std::size_t i = 0; i < kMaxGreetings + 5; ++i) crowd.push_back(call());
  expect_alive();
  for (const GrpcPipePtr& pipe : crowd) {
    EXPECT_THAT(listen_to_the_end(*pipe), HasSubstr("unavailable"));
  }
}

TEST_F(GrpcVisitors, ATooLargeGrpcMessageIsRefused) {
  const GrpcPipePtr pipe = call();
  say(*pipe, Bytes(kGrpcLargestMessage + 1));
  EXPECT_THAT(listen_to_the_end(*pipe),
              AllOf(HasSubstr("unavailable"), HasSubstr("larger than max")));
  expect_alive();
}

class GrpcPatientVisitors : public GrpcVisitors {
 protected:
  GrpcPatientVisitors() : GrpcVisitors(std::chrono::minutes(2)) {}
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kMostKilobytes = 2 << 20;  // a sanitizer keeps books of its own beside the memory
#else
constexpr long kMostKilobytes = 512 << 10;
#endif

// One that says it has 2 GiB: gRPC's memory ends before the message does.
TEST_F(GrpcPatientVisitors, AHugeGrpcMessageRunsIntoTheLimitOfMemory) {
  static const Bytes kPart(1 << 20);
  const std::vector<grpc::Slice> parts(
      2048, grpc::Slice(kPart.data(), kPart.size(), grpc::Slice::STATIC_SLICE));
  const grpc::ByteBuffer huge(parts.data(), parts.size());
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  grpc::GenericStub stub(
      grpc::CreateChannel("ipv4:" + address().text(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, kGrpcMethod, &queue);
  const auto completed = [&] {
    void* tag = nullptr;
    bool good = false;
    EXPECT_TRUE(queue.Next(&tag, &good));
    return good;
  };
  call->StartCall(nullptr);
  EXPECT_TRUE(completed());
  call->Write(huge, nullptr);
  EXPECT_FALSE(completed());
  grpc::Status status;
  call->Finish(&status, nullptr);
  (void)completed();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.error_message(), HasSubstr("RST_STREAM")) << "not by a deadline";
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, kMostKilobytes);
  expect_alive();
}

// --- replicas ---

class GrpcReplicas : public ::testing::Test {
 protected:
  static constexpr int kHosts = 3;
  static constexpr const char* kNames[kHosts] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"};

  GrpcReplicas() {
    const LogCapture capture;
    // One port that is free on all of them.
    while (hosts_.size() < kHosts) {
      hosts_.clear();
      RemoteBinding binding = boundary("x");
      binding.listen = true;
      for (const char* name : kNames) {
        binding.host = name;
        try {
          hosts_.push_back(make_transport(binding));
        } catch (const Error&) {
          break;
        }
        binding.port = hosts_.back()->binding().port;
      }
    }
    RemoteBinding list = boundary("x");
    list.host = "127.0.0.1,127.0.0.2,127.0.0.3";
    list.port = hosts_.front()->binding().port;
    end_ = make_transport(list);
  }

  std::vector<TransportPtr> hosts_;
  TransportPtr end_;
};

TEST_F(GrpcReplicas, TakeTurnsAndAnswersComeInOrder) {
  constexpr int kEach = 5;
  for (int i = 0; i < kHosts * kEach; ++i) {
    end_->send(one(static_cast<float>(i)), patient());
  }
  // The last host answers first: the order of the answers does not change.
  for (int host = kHosts - 1; host >= 0; --host) {
    for (int i = 0; i < kEach; ++i) {
      const Message got = hosts_[host]->receive(patient()).value();
      EXPECT_TRUE(same_message(got, one(static_cast<float>(i * kHosts + host))));
      hosts_[host]->send(got, patient());
    }
  }
  for (int i = 0; i < kHosts * kEach; ++i) {
    EXPECT_TRUE(same_message(end_->receive(patient()).value(), one(static_cast<float>(i))));
  }
  EXPECT_EQ(end_->stats().messages_sent, 15u);
}

TEST_F(GrpcReplicas, EpochEndsGoToAllAndComeBackOnce) {
  end_->send(one(0), patient());
  Message epoch_end;
  epoch_end.kind = MessageKind::kEpochEnd;
  epoch_end.step = 7;
  end_->send(epoch_end, patient());
  end_->send(one(1), patient());
  EXPECT_TRUE(same_message(hosts_[0]->receive(patient()).value(), one(0)));
  for (const TransportPtr& host : hosts_) {
    EXPECT_TRUE(same_message(host->receive(patient()).value(), epoch_end));
    host->send(epoch_end, patient());
  }
  EXPECT_TRUE(same_message(hosts_[1]->receive(patient()).value(), one(1)));
  hosts_[0]->send(one(2), patient());
  EXPECT_TRUE(same_message(end_->receive(patient()).value(), epoch_end));
  EXPECT_TRUE(same_message(end_->receive(patient()).value(), one(2)));
}

TEST_F(GrpcReplicas, MustAgreeOnEpochEnds) {
  Message epoch_end;
  epoch_end.kind = MessageKind::kEpochEnd;
  for (const TransportPtr& host : hosts_) {
    epoch_end.step = host == hosts_[1] ? 2 : 1;
    host->send(epoch_end, patient());
  }
  EXPECT_THAT(receive_error(*end_),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("127.0.0.2"), HasSubstr("agree")));
}

TEST_F(GrpcReplicas, AHostThatGoesAwayIsAnErrorOfItsTurnAndNamesIt) {
  for (int i = 0; i < kHosts; ++i) end_->send(one(static_cast<float>(i)), patient());
  for (const TransportPtr& host : hosts_) (void)host->receive(patient());
  hosts_[0]->send(one(0), patient());
  hosts_[1].reset();
  EXPECT_TRUE(same_message(end_->receive(patient()).value(), one(0))) << "the others are used on";
  end_->send(one(3), patient());
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(receive_error(*end_), AllOf(HasSubstr("aborted"), HasSubstr("127.0.0.2")));
    EXPECT_THAT(error_of([&] { end_->send(one(4), patient()); }), HasSubstr("127.0.0.2"));
  }
}

TEST_F(GrpcReplicas, CloseTogether) {
  Message last;
  last.kind = MessageKind::kControl;
  end_->send(last, patient());
  std::thread closer([&] { EXPECT_EQ(error_of([&] { end_->close(patient()); }), "no error"); });
  for (const TransportPtr& host : hosts_) {
    EXPECT_TRUE(host->receive(patient()));
    EXPECT_FALSE(host->receive(patient()));
  }
  closer.join();
}

TEST(GrpcReplicaLists, WrongOnesAreErrors) {
  const auto making = [](const std::string& hosts, std::optional<bool> listen) {
    RemoteBinding binding{"x", hosts, 9000, RemoteTransport::GRPC};
    binding.listen = listen;
    return error_of([&] { (void)make_transport(binding); });
  };
  EXPECT_THAT(making("127.0.0.1,,127.0.0.2", {}), HasSubstr("no list of 2 to 64 hosts"));
  EXPECT_THAT(making("127.0.0.1,127.0.0.2", true), HasSubstr("cannot listen"));
  std::string many = "127.0.0.1";
  for (int i = 0; i < 64; ++i) many += ",127.0.0.1";
  EXPECT_THAT(making(many, {}), HasSubstr("no list of 2 to 64 hosts"));
}

}  // namespace
}  // namespace harmonics::inline in_transport
