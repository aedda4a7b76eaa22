// Links that are cut and damaged at random, hundreds of times: nothing lost, nothing doubled, the
// order kept, in both directions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <error_testing.h>

#include "endpoint_testing.h"
#include "frame/frame_testing.h"
#include "rough_proxy_testing.h"
#include "tls_testing.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Content and size follow from direction and number, so that every mistake shows.
Message expected(std::uint64_t direction, std::uint64_t number) {
  Random random(random_key(direction, "cut links"), number);
  Message message;
  message.kind = direction == 0 ? MessageKind::kActivation : MessageKind::kGradient;
  message.step = number;
  message.tensor = Tensor::empty({static_cast<std::int64_t>(random.below(20'000))});
  float value = static_cast<float>(number);
  for (float& to : message.tensor.mutable_values<float>()) to = value++;
  message.attachment.assign(random.below(100), static_cast<std::byte>(number));
  return message;
}

struct Ends {
  Ends(RemoteTransport transport, const Roughness& roughness, bool compress,
       const TransportOptions& options) {
    RemoteBinding binding = named("hidden@1", transport);
    binding.port = reserved_port();
    binding.compress = compress;
    listening = listening_end(binding, options);
    proxy = std::make_unique<RoughProxy>(listening->binding().port, roughness);
    binding = listening->binding();
    binding.listen = false;
    binding.port = proxy->port();
    connecting = make_transport(binding, options);
  }
  TransportPtr listening;
  std::unique_ptr<RoughProxy> proxy;
  TransportPtr connecting;
};

TransportOptions quick() {
  TransportOptions options;
  options.window = {512 << 10, 8};
  options.retry_first = std::chrono::milliseconds(1);
  options.retry_longest = std::chrono::milliseconds(20);
  return options;
}

// Sends both ways until `enough` says so, then one more that says how many there were.
template <typename Enough>
void run_through(Ends& ends, Enough enough) {
  const auto send_all = [&](Transport& end, std::uint64_t direction) {
    std::uint64_t number = 0;
    while (!enough()) end.send(expected(direction, ++number), patient());
    Message last;
    last.kind = MessageKind::kEpochEnd;
    last.step = number;
    end.send(last, patient());
  };
  const auto receive_all = [&](Transport& end, std::uint64_t direction) {
    for (std::uint64_t number = 1;; ++number) {
      const std::optional<Message> message = end.receive(patient());
      if (!message) fail(ErrorCode::kInternal, "direction {} ended early", direction);
      if (message->kind == MessageKind::kEpochEnd) {
        EXPECT_EQ(message->step, number - 1) << "direction " << direction;
        return;
      }
      if (!same_message(*message, expected(direction, number))) {
        fail(ErrorCode::kInternal, "direction {}: message {} is not what was sent", direction,
             number);
      }
    }
  };
  std::vector<std::thread> threads;
  const auto start = [&](auto work) {
    threads.emplace_back([&ends, work] {
      const std::string error = error_of(work);
      if (error == "no error") return;
      ADD_FAILURE() << error;
      // The others would wait for what does not come.
      for (Transport* end : {ends.listening.get(), ends.connecting.get()}) {
        (void)error_of([&] { end->close(deadline_in(Nanoseconds(0))); });
      }
    });
  };
  start([&] { send_all(*ends.listening, 0); });
  start([&] { send_all(*ends.connecting, 1); });
  start([&] { receive_all(*ends.listening, 1); });
  start([&] { receive_all(*ends.connecting, 0); });
  for (std::thread& thread : threads) thread.join();
}

void close_both(Ends& ends) {
  std::thread other(
      [&] { EXPECT_EQ(error_of([&] { ends.listening->close(patient()); }), "no error"); });
  EXPECT_EQ(error_of([&] { ends.connecting->close(patient()); }), "no error");
  other.join();
}

// Over every transport whose connections can break.
class CutLinks : public ::testing::TestWithParam<RemoteTransport> {
 protected:
  static Ends ends_with(const Roughness& roughness, bool compress = false,
                        const TransportOptions& options = quick()) {
    return {GetParam(), roughness, compress, options};
  }

  static void survive_cuts(std::uint64_t cuts, bool compress, const TransportOptions& options) {
    // Compressed messages are short: so should be the life of a connection.
    Ends ends = ends_with({7, compress ? 60'000U : 300'000U, 0}, compress, options);
    run_through(ends, [&] { return ends.proxy->cuts() >= cuts; });
    const TransportStats stats = ends.connecting->stats();
    EXPECT_GT(stats.reconnects, cuts / 4) << "a cut during the greeting makes no link";
    EXPECT_LE(stats.peak_retained_bytes, options.window.bytes);
    EXPECT_LE(stats.peak_retained_messages, options.window.messages);
    close_both(ends);
  }
};

TEST_P(CutLinks, NothingIsLostOrDoubledThroughHundredsOfCuts) {
  survive_cuts(GetParam() == RemoteTransport::TCP ? 1000 : 200, false, quick());
}

TEST_P(CutLinks, NorWithCompression) { survive_cuts(100, true, quick()); }

TEST_P(CutLinks, NorWithTlsAndToken) {
  const TestCertificates certificates;
  TransportOptions options = quick();
  options.tls = certificates.options();
  options.token = "secret 81b2c4f97d0e";
  survive_cuts(60, false, options);
}

// An end must not go while the other one waits to hear that everything arrived. Each life of a
// connection is a few frames long, so that cuts fall between an end, its acknowledgement and the
// parting.
TEST_P(CutLinks, BothEndsCloseWhereverTheLinkIsCut) {
  // What the protocol below says at the beginning of a connection comes on top.
  const std::uint64_t longest_life = GetParam() == RemoteTransport::TCP    ? 1'500
                                     : GetParam() == RemoteTransport::GRPC ? 3'000
                                                                           : 6'000;
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    threads.emplace_back([seed, longest_life] {
      Ends ends = ends_with({seed, longest_life, 0});
      ends.listening->send(Message{}, patient());
      ends.connecting->send(Message{}, patient());
      close_both(ends);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Most flips hit a frame and cost the connection; those in the zeros before a payload mean nothing.
TEST_P(CutLinks, DamageIsFoundAndSentAgain) {
  TransportOptions options = quick();
  options.heartbeat =
      std::chrono::milliseconds(200);  // a flipped length makes a connection fall silent
  Ends ends = ends_with({9, 0, 500'000}, false, options);
  run_through(
      ends, [&] { return ends.proxy->flips() >= 60 && ends.connecting->stats().reconnects >= 30; });
  ends.proxy->be_gentle();
  close_both(ends);
}

// Each message waits for the answer to the one before, so that nothing follows bytes that are left
// out but what the transport itself says; signs of life come too seldom to help.
TEST_P(CutLinks, BytesThatAreLeftOutAreMissedSoon) {
  TransportOptions options = quick();
  options.heartbeat = std::chrono::minutes(1);
  if (std::getenv("HARMONICS_TEST_PLAIN_BEATS") != nullptr) {  // to measure what it was without
    options.heartbeat = std::chrono::seconds(1);
    options.ask_again = Nanoseconds(0);
  }
  Ends ends = ends_with({11, 0, 0, 40'000}, false, options);
  const auto started = std::chrono::steady_clock::now();
  std::thread echo([&] {
    while (const std::optional<Message> message = ends.listening->receive(patient())) {
      ends.listening->send(*message, patient());
    }
  });
  Message message = one();
  message.tensor = Tensor::zeros({500});
  while (ends.proxy->drops() < 10) {
    ends.connecting->send(message, patient());
    ASSERT_TRUE(ends.connecting->receive(patient()));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::printf("%s: %.2f s for each hole\n", std::string(transport_name(GetParam())).c_str(),
              took.count() / static_cast<double>(ends.proxy->drops()));
  ends.proxy->be_gentle();
  ends.connecting->close(patient());
  echo.join();
}

TEST_P(CutLinks, ASenderGoesOnWithinItsCreditsWhileThereIsNoLink) {
  Ends ends = ends_with({1, 0, 0});
  ends.listening->send(expected(0, 1), patient());
  ASSERT_TRUE(ends.connecting->receive(patient()));
  ends.proxy->forbid();
  Message small;
  std::uint64_t sent = 0;
  std::string error;
  do {  // the end may notice the cut after it has filled its window
    error = error_of([&] { ends.listening->send(small, deadline_in(Nanoseconds(0))); });
    if (error == "no error") ++sent;
  } while (error.find("there is no link") == std::string::npos);
  EXPECT_GE(sent, 7u);
  EXPECT_LE(sent, 8u);
  EXPECT_THAT(error, AllOf(HasSubstr("deadline_exceeded"), HasSubstr("hidden@1")));
  ends.proxy->allow();
  for (std::uint64_t i = 0; i < sent; ++i) EXPECT_TRUE(ends.connecting->receive(patient()));
  close_both(ends);
}

TEST_P(CutLinks, ClosingWaitsForALinkToDeliverTheRest) {
  Ends ends = ends_with({1, 0, 0});
  ends.listening->send(expected(0, 1), patient());
  ASSERT_TRUE(ends.connecting->receive(patient()));
  ends.proxy->forbid();
  ends.listening->send(expected(0, 2), patient());
  std::thread closer(
      [&] { EXPECT_EQ(error_of([&] { ends.listening->close(patient()); }), "no error"); });
  ends.proxy->allow();
  const std::optional<Message> message = ends.connecting->receive(patient());
  EXPECT_TRUE(message && same_message(*message, expected(0, 2)));
  EXPECT_FALSE(ends.connecting->receive(patient()).has_value());
  closer.join();
}

TEST_P(CutLinks, ClosingWithoutALinkGivesUpAtTheDeadline) {
  Ends ends = ends_with({1, 0, 0});
  ends.listening->send(expected(0, 1), patient());
  ASSERT_TRUE(ends.connecting->receive(patient()));
  ends.proxy->forbid();
  ends.listening->send(expected(0, 2), patient());
  EXPECT_THAT(error_of([&] { ends.listening->close(deadline_in(Nanoseconds(0))); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("hidden@1")));
}

// Killed and started again, a peer has lost what it had received: going on would lose messages.
TEST_P(CutLinks, ARestartedPeerIsRefusedAndTheSurvivorToldSo) {
  Ends ends = ends_with({1, 0, 0});
  ends.listening->send(expected(0, 1), patient());
  ASSERT_TRUE(ends.connecting->receive(patient()));
  ends.proxy->forbid();  // so that nothing of its going away gets through
  RemoteBinding binding = ends.connecting->binding();
  ends.connecting.reset();
  ends.proxy->allow();
  const TransportPtr restarted = make_transport(binding, quick());
  EXPECT_THAT(error_of([&] { (void)ends.listening->receive(patient()); }),
              AllOf(HasSubstr("aborted"), HasSubstr("restarted"), HasSubstr("checkpoint")));
}

TEST_P(CutLinks, ARestartedListenerIsNoticedByTheConnectingEnd) {
  Ends ends = ends_with({1, 0, 0});
  ends.listening->send(expected(0, 1), patient());
  ASSERT_TRUE(ends.connecting->receive(patient()));
  ends.proxy->forbid();
  RemoteBinding binding = ends.listening->binding();
  ends.listening.reset();
  const TransportPtr restarted = make_transport(binding, quick());
  ends.proxy->allow();
  EXPECT_THAT(error_of([&] { (void)ends.connecting->receive(patient()); }),
              AllOf(HasSubstr("aborted"), HasSubstr("restarted"), HasSubstr("checkpoint")));
}

// The listener cannot read such a greeting, and says that it speaks another version. Two ends that
// have met know better.
TEST(CutTcpLinks, AVersionThatIsDamagedOnTheWayIsNoOtherRelease) {
  Ends ends(RemoteTransport::TCP, {1, 0, 0}, false, quick());
  ends.listening->send(expected(0, 1), patient());
  ASSERT_TRUE(ends.connecting->receive(patient()));
  ends.proxy->forbid();
  ends.proxy->spoil_next_version();
  ends.proxy->allow();
  ends.listening->send(expected(0, 2), patient());
  const std::optional<Message> message = ends.connecting->receive(patient());
  EXPECT_TRUE(message && same_message(*message, expected(0, 2)));
  EXPECT_EQ(ends.proxy->flips(), 1u);
  close_both(ends);
}

INSTANTIATE_TEST_SUITE_P(All, CutLinks,
                         ::testing::Values(RemoteTransport::TCP
#if HARMONICS_HAS_GRPC
                                           ,
                                           RemoteTransport::GRPC
#endif
#if HARMONICS_HAS_FLIGHT
                                           ,
                                           RemoteTransport::Flight
#endif
                                           ),
                         [](const auto& info) { return std::string(transport_name(info.param)); });

}  // namespace
}  // namespace harmonics::inline in_transport
