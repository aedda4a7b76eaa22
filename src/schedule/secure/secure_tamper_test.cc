// Somebody between two parts of a run that really trains: on every transport the part that receives
// stops before it uses the tensor, and says which link it was and what did not match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>

#include <harmonics/custody/breach.h>
#include <harmonics/custody/verify.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"
#include "remote/wire.h"
#include "secure_tamper_testing.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::HasSubstr;

// Two tensors cross from the first part to the second.
HarmonicGraph two_boundaries() {
  const auto width = [](std::int64_t out) { return Attributes{{"out", out}}; };
  return GraphBuilder("net")
      .producer("x", Shape{6})
      .producer("label", Shape{}, DType::kInt64)
      .layer("a", "linear", width(5), {"x"}, "relu")
      .layer("b", "linear", width(5), {"a"}, "relu")
      .layer("sum", "add", {}, {"a", "b"})
      .layer("out", "linear", width(4), {"sum"})
      .tap("cross_entropy", "out", "label")
      .consumer("y", "out")
      .build();
}

class SecureTamperTest : public ::testing::TestWithParam<Carrier> {
 protected:
  void SetUp() override {
    if (!GetParam().is_here()) GTEST_SKIP() << "this build has no " << GetParam().name;
    for (const char* owner : {"alice", "bob"}) SigningKey::make(owner).save(folder_ / "keys");
  }

  // Trains one epoch in two parts; the attackers stand behind the first part's ends, by boundary,
  // and behind the second part's. What the parts say, and the boundaries' names.
  std::vector<std::string> train(const std::map<std::string, Attack>& forward,
                                 const Attack& backward = {}) {
    const std::vector<HarmonicGraph> parts = partition_graph(graph_, 2);
    std::vector<std::unique_ptr<DistributedScheduler>> runs;
    for (std::size_t i = 0; i < 2; ++i) {
      RemoteOptions options = test_remote();
      options.closing = std::chrono::milliseconds(300);
      options.runtime.secure.key = i == 0 ? "alice" : "bob";
      options.runtime.secure.keys = folder_ / "keys";
      options.runtime.secure.chain = folder_ / format("{}.{}.chain", runs_, i);
      DeploymentDescriptor deploy;
      deploy.backend = Backend::CPU;
      deploy.secure = true;
      runs.push_back(
          std::make_unique<DistributedScheduler>(std::vector{parts[i]}, deploy, options));
      for (const ProducerNode& node : parts[i].producers()) {
        if (!is_boundary_name(node.name)) runs[i]->bindProducer(node.name, test_data(node));
      }
    }
    ++runs_;
    for (const ConsumerNode& node : parts[0].consumers()) {
      if (!is_boundary_name(node.name)) continue;
      auto [sender, receiver] = connected_ends(GetParam(), node.name);
      const auto attack = forward.find(node.name);
      runs[0]->bindConsumer(
          node.name, std::make_unique<AttackedTransport>(
                         std::move(sender), attack == forward.end() ? Attack() : attack->second));
      runs[1]->bindProducer(node.name,
                            std::make_unique<AttackedTransport>(std::move(receiver), backward));
    }
    return at_the_same_time({[&] { run(runs[0]); }, [&] { run(runs[1]); }});
  }
  static void run(std::unique_ptr<DistributedScheduler>& scheduler) {
    const std::unique_ptr<DistributedScheduler> own = std::move(scheduler);
    own->fit(1);
    own->close();
  }
  void expect_caught(const Attack& attack, Breach breach, const std::string& words) {
    const std::vector<std::string> errors = train({{"a@1", attack}});
    EXPECT_THAT(errors[1], HasSubstr(format("custody: {}", breach_name(breach)))) << words;
    EXPECT_THAT(errors[1], HasSubstr("forward 'a@1', step 1, micro-batch"));
    EXPECT_THAT(errors[1], HasSubstr(words));
    EXPECT_NE(errors[0], "");
    EXPECT_THROW(static_cast<void>(verified()), CustodyError);
  }
  [[nodiscard]] VerifyReport verified(const Roster* roster = nullptr) const {
    std::vector<Chain> chains;
    for (int i = 0; i < 2; ++i) {
      chains.push_back(read_chain(folder_ / format("{}.{}.chain", runs_ - 1, i)));
    }
    return verify_chain(chains, roster != nullptr ? *roster : Roster::load(folder_ / "keys"));
  }

  const HarmonicGraph graph_ = two_boundaries();
  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_P(SecureTamperTest, WithoutAttackersTheRunVerifies) {
  ASSERT_EQ(train({}), std::vector<std::string>(2));
  // Two boundaries there and back, and what leaves the graph.
  EXPECT_EQ(verified().links, (2u * 2 + 1) * 6 * 4);
}

TEST_P(SecureTamperTest, ChangedTensors) {
  expect_caught([](const Message& m) { return std::vector{with_flipped_bit(m)}; },
                Breach::kFlippedTensor, "they were changed on the way");
  expect_caught(
      [](Message m) {
        m.tensor = m.tensor.reshaped({m.tensor.shape()[1], m.tensor.shape()[0]});
        return std::vector{std::move(m)};
      },
      Breach::kFlippedTensor, "another dtype or shape");
  const std::vector<std::string> errors =
      train({}, [](const Message& m) { return std::vector{with_flipped_bit(m)}; });
  EXPECT_THAT(errors[0], HasSubstr("custody: altered tensor: backward '"));
}

TEST_P(SecureTamperTest, WhatTravelsAlongIsSigned) {
  expect_caught(
      [](Message m) {
        m.attachment[kBatchHeadBytes - 8] ^= std::byte{3};  // when the run ends
        return std::vector{std::move(m)};
      },
      Breach::kSubstitutedKey, "or was changed on the way");
}

TEST_P(SecureTamperTest, ReplayedReorderedAndMissingTensors) {
  std::optional<Message> first;
  expect_caught(
      [first](const Message& m) mutable {
        if (!first) first = m;
        return std::vector{with_content_of(m, *first)};
      },
      Breach::kReplay, "came again");
  std::optional<Message> held;
  expect_caught(
      [held](const Message& m) mutable -> std::vector<Message> {
        if (!held) {
          held = m;
          return {};
        }
        return {with_content_of(*held, m), with_content_of(m, *held)};
      },
      Breach::kReorder, "which was held back");
  expect_caught(
      [](Message m) {
        m.attachment.resize(kBatchHeadBytes);
        return std::vector{std::move(m)};
      },
      Breach::kDrop, "without its link");
}

TEST_P(SecureTamperTest, ASwappedBoundary) {
  const auto other = std::make_shared<std::optional<Message>>();
  // Boundaries are sent in the order of their names: a@1, then b@1.
  const std::vector<std::string> errors = train(
      {{"a@1",
        [other](const Message& m) {
          *other = m;
          return std::vector{m};
        }},
       {"b@1", [other](const Message& m) { return std::vector{with_content_of(m, **other)}; }}});
  EXPECT_THAT(errors[1], HasSubstr("custody: swapped boundary: forward 'b@1', step 1"));
  EXPECT_THAT(errors[1], HasSubstr("a link of forward 'a@1'"));
}

TEST_P(SecureTamperTest, AnotherKeyAndAnotherRun) {
  const SigningKey mallory = SigningKey::make("mallory");
  expect_caught(
      [&](const Message& m) { return std::vector{signed_by(mallory, m, kBatchHeadBytes)}; },
      Breach::kSubstitutedKey, "(signer 'alice')");
  const auto recorded = std::make_shared<std::optional<Message>>();
  ASSERT_EQ(train({{"a@1",
                    [recorded](const Message& m) {
                      if (!*recorded) *recorded = m;
                      return std::vector{m};
                    }}}),
            std::vector<std::string>(2));
  expect_caught([&](const Message& m) { return std::vector{with_content_of(m, **recorded)}; },
                Breach::kOtherRun, "another run");
}

// The keys of alice and bob are others than the verifier knows: somebody made it all up.
TEST_P(SecureTamperTest, ReSignedAndTruncatedChains) {
  ASSERT_EQ(train({}), std::vector<std::string>(2));
  Roster known;
  known.add("alice", SigningKey::make("alice").public_key());
  known.add("bob", SigningKey::make("bob").public_key());
  const auto breach_of = [](const std::function<void()>& action) -> std::optional<Breach> {
    try {
      action();
    } catch (const CustodyError& error) {
      return error.breach();
    }
    return std::nullopt;
  };
  EXPECT_EQ(breach_of([&] { static_cast<void>(verified(&known)); }), Breach::kResigned);
  std::vector<Chain> chains;
  for (int i = 0; i < 2; ++i) {
    chains.push_back(read_chain(folder_ / format("{}.{}.chain", runs_ - 1, i)));
  }
  const Roster roster = Roster::load(folder_ / "keys");
  chains[1].records.pop_back();
  EXPECT_EQ(breach_of([&] { static_cast<void>(verify_chain(chains, roster)); }),
            Breach::kTruncated);
}

INSTANTIATE_TEST_SUITE_P(All, SecureTamperTest, ::testing::ValuesIn(carriers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace harmonics::inline in_schedule
