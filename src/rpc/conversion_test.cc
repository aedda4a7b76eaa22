// What goes over the wire comes back the same, and random bytes never do harm.
#include "conversion.h"

#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>

#include <task/task_testing.h>

namespace harmonics::inline in_rpc {
namespace {

template <typename Wire, typename Message>
Message there_and_back(const Message& message) {
  Wire wire;
  encode(message, wire);
  Wire copy;
  EXPECT_TRUE(copy.ParseFromString(wire.SerializeAsString()));
  return decode(copy);
}

TEST(Wire, TasksComeBack) {
  Random random(8, "tasks");
  for (int round = 0; round < 200; ++round) {
    const TaskSpec spec = random_task_spec(random, round % 2 == 0, round % 4 < 2);
    EXPECT_EQ(there_and_back<wire::TaskSpec>(spec), spec);
  }
  EXPECT_EQ(there_and_back<wire::TaskSpec>(TaskSpec{}), TaskSpec{});
}

// The numbers and names that peers of other versions know.
TEST(Wire, ATaskIsTheSameBytesAsBefore) {
  TaskSpec spec;
  spec.name = "n";
  spec.params = {{"a", "b"}};
  spec.command = {"sh"};
  spec.priority = -7;
  spec.depends_on = {TaskId{10}};
  spec.max_losses = kUnlimitedLosses;
  spec.files = std::vector<TaskFile>{{"f", "x", true}};
  set_pipeline(spec, {.model = "m", .stages = 2, .bindings = {{"i", "c"}}, .secure = true});
  wire::TaskSpec out;
  encode(spec, out);
  wire::TaskSpec by_hand;
  by_hand.set_name("n");
  by_hand.set_required_gpus(1);
  by_hand.set_min_gpu_memory_mb(4096);
  by_hand.add_params()->set_key("a");
  by_hand.mutable_params(0)->set_value("b");
  by_hand.add_command("sh");
  by_hand.set_priority(-7);
  by_hand.set_gang(2);
  by_hand.add_depends_on(10);
  by_hand.set_on_disconnect(wire::ON_DISCONNECT_HOLD);
  by_hand.set_max_losses(kUnlimitedLosses);
  by_hand.mutable_pipeline()->set_model("m");
  by_hand.mutable_pipeline()->set_stages(2);
  by_hand.mutable_pipeline()->add_bindings()->set_key("i");
  by_hand.mutable_pipeline()->mutable_bindings(0)->set_value("c");
  by_hand.mutable_pipeline()->set_checkpoint_every(100);
  by_hand.mutable_pipeline()->set_secure(true);
  by_hand.add_files()->set_path("f");
  by_hand.mutable_files(0)->set_data("x");
  by_hand.mutable_files(0)->set_executable(true);
  EXPECT_EQ(out.SerializeAsString(), by_hand.SerializeAsString());
}

TEST(Wire, WhatAnEarlierPeerDoesNotSayIsTheDefault) {
  wire::TaskSpec from;
  EXPECT_EQ(decode(from).max_losses, TaskSpec{}.max_losses);
  EXPECT_EQ(decode(from).on_disconnect, OnDisconnect::kStop);
  from.set_on_disconnect(static_cast<wire::OnDisconnect>(9));
  EXPECT_EQ(decode(from).on_disconnect, OnDisconnect::kStop);
}

TEST(Wire, EveryKindOfEndComesBack) {
  for (auto kind = EndKind::kSucceeded; kind <= EndKind::kUnable;
       kind = static_cast<EndKind>(static_cast<int>(kind) + 1)) {
    const EndResult result{kind, 3, 9, "because"};
    EXPECT_EQ(there_and_back<wire::EndResult>(result), result);
  }
}

TEST(Wire, MessagesOfAWorkerComeBack) {
  HelloMessage hello;
  hello.spec = {"w", "localhost:1", {{"0", "T4", 16384}}, 4, 1000, "identity"};
  hello.attempts = {{{TaskId{1}, AttemptNumber{2}}, true, std::nullopt},
                    {{TaskId{3}, AttemptNumber{4}}, false, EndResult{EndKind::kLost, 0, 0, "x"}}};
  const auto back =
      std::get<HelloMessage>(there_and_back<wire::WorkerMessage>(WorkerMessage(hello)));
  EXPECT_EQ(back.spec, hello.spec);
  EXPECT_EQ(back.attempts, hello.attempts);
  const EndedMessage ended{{TaskId{1}, AttemptNumber{2}}, {EndKind::kFailed, 1, 0, "no"}};
  const auto end =
      std::get<EndedMessage>(there_and_back<wire::WorkerMessage>(WorkerMessage(ended)));
  EXPECT_EQ(end.id, ended.id);
  EXPECT_EQ(end.result, ended.result);
}

TEST(Wire, MessagesOfTheServerComeBack) {
  StartMessage start;
  start.id = {TaskId{1}, AttemptNumber{2}};
  Random random(9, "tasks");
  start.spec = std::make_shared<const TaskSpec>(random_task_spec(random, true, true));
  start.user = "ann";
  start.array_index = 3;
  start.gang_rank = 1;
  start.peers = {{"a", "h:1"}, {"b", "h:2"}};
  start.devices.add({63});
  start.gang_secret = "s";
  start.plan = "{}";
  const auto back =
      std::get<StartMessage>(there_and_back<wire::ServerMessage>(ServerMessage(start)));
  EXPECT_EQ(back.id, start.id);
  EXPECT_EQ(*back.spec, *start.spec);
  EXPECT_EQ(back.peers.size(), 2u);
  EXPECT_EQ(back.devices, start.devices);
  EXPECT_EQ(back.gang_secret, start.gang_secret);
  EXPECT_EQ(back.plan, start.plan);
  const WelcomeMessage welcome{WorkerId{1}, "w", Nanoseconds(2), Nanoseconds(3), Nanoseconds(4)};
  const auto greeted =
      std::get<WelcomeMessage>(there_and_back<wire::ServerMessage>(ServerMessage(welcome)));
  EXPECT_EQ(greeted.lease, welcome.lease);
  EXPECT_EQ(greeted.stop_grace, welcome.stop_grace);
}

TEST(Wire, EveryReasonToWaitComesBack) {
  for (auto reason = WhyPending::Reason::kNotPending; reason <= WhyPending::Reason::kNext;
       reason = static_cast<WhyPending::Reason>(static_cast<int>(reason) + 1)) {
    EXPECT_EQ(there_and_back<wire::WhyReply>(WhyPending{reason, "text", 3}).reason, reason);
  }
}

TEST(Wire, WhatIsUnknownOrTooMuchIsRefused) {
  EXPECT_THROW(static_cast<void>(decode(wire::WorkerMessage())), Error);
  EXPECT_THROW(static_cast<void>(decode(wire::ServerMessage())), Error);
  wire::EndResult end;
  end.set_kind(static_cast<wire::EndKind>(99));
  EXPECT_THROW(static_cast<void>(decode(end)), Error);
  wire::WorkerMessage crowded;
  for (std::size_t i = 0; i <= kMaxDevicesPerWorker; ++i) crowded.mutable_hello()->add_devices();
  EXPECT_THROW(static_cast<void>(decode(crowded)), Error);
}

TEST(Wire, DamagedBytesNeverCrash) {
  wire::WorkerFrame frame;
  HelloMessage hello;
  hello.spec = {"w", "localhost:1", {{"0", "T4", 16384}}, 4, 1000, "identity"};
  hello.attempts = {{{TaskId{1}, AttemptNumber{2}}, true, EndResult{}}};
  encode(WorkerMessage(hello), *frame.add_messages());
  const std::string whole = frame.SerializeAsString();
  Random random(7, "wire");
  int parsed = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      bytes[random.below(bytes.size())] = static_cast<char>(random());
    }
    wire::WorkerFrame damaged;
    if (!damaged.ParseFromString(bytes)) continue;
    ++parsed;
    for (const wire::WorkerMessage& message : damaged.messages()) {
      try {
        static_cast<void>(decode(message));
      } catch (const Error&) {
      }
    }
  }
  EXPECT_GT(parsed, 0);
}

}  // namespace
}  // namespace harmonics::inline in_rpc
