// Waits that are asked to stop, over every transport between processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <error_testing.h>

#include "carriers_testing.h"
#include "endpoint_testing.h"
#include "rough_proxy_testing.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StopWaits : public ::testing::TestWithParam<RemoteTransport> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << "this build lacks the transport";
  }
  [[nodiscard]] RemoteBinding binding() const {
    RemoteBinding made = named(unique_name("x"), GetParam());
    made.port = reserved_port();
    return made;
  }
  [[nodiscard]] TransportOptions stoppable() const {
    TransportOptions options;
    options.stop = stop_;
    return options;
  }
  const StopRequestPtr stop_ = std::make_shared<StopRequest>();
};

TEST_P(StopWaits, ForAPeerThatNeverComesEndAtOnce) {
  const TransportPtr end = listening_end(binding(), stoppable());
  const auto says = AllOf(HasSubstr("cancelled"), HasSubstr("asked to stop (SIGTERM)"),
                          HasSubstr(end->binding().name));
  std::thread signal([&] { stop_->ask("SIGTERM"); });
  EXPECT_THAT(error_of([&] { (void)end->receive(patient()); }), says);
  signal.join();
  EXPECT_THAT(error_of([&] { (void)end->receive(patient()); }), says);
  EXPECT_THAT(error_of([&] { end->send(one(), patient()); }), says);
  EXPECT_EQ(error_of([&] { end->close(patient()); }), "no error");
}

TEST_P(StopWaits, ForAPeerThatSaysNothingEndAtOnceWhereNothingIsLost) {
  const TransportPtr end = listening_end(binding(), stoppable());
  const TransportPtr peer = connecting_end(*end);
  expect_talk(*end, *peer);
  std::thread signal([&] { stop_->ask("SIGTERM"); });
  EXPECT_THAT(error_of([&] { (void)end->receive(patient()); }),
              AllOf(HasSubstr("cancelled"), HasSubstr("the link is up")));
  signal.join();
}

TEST_P(StopWaits, GoOnForAPeerThatIsThereWhereThereIsWorkToFinish) {
  stop_->set_patience({std::chrono::minutes(4), Nanoseconds(0)});
  const TransportPtr end = listening_end(binding(), stoppable());
  const TransportPtr peer = connecting_end(*end, stoppable());
  expect_talk(*end, *peer);
  stop_->ask("SIGTERM");
  std::thread late([&] { peer->send(one(7), patient()); });
  EXPECT_TRUE(same_message(end->receive(patient()).value(), one(7)));
  late.join();
  expect_talk(*end, *peer);
  std::thread other([&] { EXPECT_EQ(error_of([&] { peer->close(patient()); }), "no error"); });
  EXPECT_EQ(error_of([&] { end->close(patient()); }), "no error");
  other.join();
}

TEST_P(StopWaits, EndWhenThePeerCannotBeHeardAnyMore) {
  if (GetParam() == RemoteTransport::SharedMemory) GTEST_SKIP() << "no link to cut";
  stop_->set_patience({std::chrono::minutes(4), Nanoseconds(0)});
  const TransportPtr end = listening_end(binding(), stoppable());
  RoughProxy proxy(end->binding().port, {});
  RemoteBinding through = end->binding();
  through.port = proxy.port();
  through.listen = false;
  const TransportPtr peer = make_transport(through);
  expect_talk(*end, *peer);
  stop_->ask("SIGTERM");
  std::thread cutter([&] { proxy.forbid(); });
  EXPECT_THAT(error_of([&] { (void)end->receive(patient()); }),
              AllOf(HasSubstr("cancelled"), HasSubstr("there is no link")));
  cutter.join();
}

INSTANTIATE_TEST_SUITE_P(All, StopWaits,
                         ::testing::Values(RemoteTransport::TCP, RemoteTransport::GRPC,
                                           RemoteTransport::Flight, RemoteTransport::SharedMemory),
                         [](const auto& info) { return std::string(transport_name(info.param)); });

}  // namespace
}  // namespace harmonics::inline in_transport
