// Secure replicas: what they exchange is signed and checked, on every transport and in every order
// of the sums; the weights are those of replicas that sign nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <harmonics/custody/breach.h>
#include <harmonics/custody/verify.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/replica_scheduler.h>

#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"
#include "secure_tamper_testing.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::HasSubstr;

// Layout and way stand before the seal of a chunk.
constexpr std::size_t kMark = 8;

HarmonicGraph small_net() {
  const auto width = [](std::int64_t out) { return Attributes{{"out", out}}; };
  return GraphBuilder("net")
      .producer("x", Shape{6})
      .producer("label", Shape{}, DType::kInt64)
      .layer("a", "linear", width(16), {"x"}, "relu")
      .layer("out", "linear", width(4), {"a"})
      .tap("cross_entropy", "out", "label")
      .consumer("y", "out")
      .build();
}

class SecureReplicaTest : public ::testing::TestWithParam<Carrier> {
 protected:
  void SetUp() override {
    if (!GetParam().is_here()) GTEST_SKIP() << "this build has no " << GetParam().name;
    for (const char* owner : {"alice", "bob", "carol"}) SigningKey::make(owner).save(keys());
  }
  [[nodiscard]] std::filesystem::path keys() const { return folder_ / "keys"; }

  struct Wanted {
    Reduction order = Reduction::Chain;
    std::vector<bool> secure = {true, true};
    /// Behind the end of the lower rank of this link, and behind the higher one's.
    std::map<std::pair<std::size_t, std::size_t>, Attack> down = {};
    std::map<std::pair<std::size_t, std::size_t>, Attack> up = {};
  };

  // One epoch; what each replica says, and its digest.
  std::vector<std::string> train(const Wanted& wanted) {
    const std::size_t count = wanted.secure.size();
    std::vector<ReductionEnds> ends(count);
    for (std::size_t rank = 0; rank < count; ++rank) {
      ends[rank].rank = rank;
      ends[rank].ranks = count;
      for (const std::size_t peer : reduction_peers(wanted.order, rank, count)) {
        if (peer < rank) continue;
        auto [low, high] = connected_ends(GetParam(), format("link/{}-{}", rank, peer));
        const auto attacked = [&](const auto& attacks, TransportPtr end) -> TransportPtr {
          const auto found = attacks.find({rank, peer});
          if (found == attacks.end()) return end;
          return std::make_unique<AttackedTransport>(std::move(end), found->second);
        };
        ends[rank].peers.emplace(peer, attacked(wanted.down, std::move(low)));
        ends[peer].peers.emplace(rank, attacked(wanted.up, std::move(high)));
      }
    }
    ReductionOptions reduction;
    reduction.order = wanted.order;
    reduction.chunk_bytes = 128;  // several chunks of every tensor
    reduction.deadline = std::chrono::seconds(30);
    reduction.closing = std::chrono::milliseconds(300);
    digests_.assign(count, "");
    ++runs_;
    std::vector<std::function<void()>> all;
    for (std::size_t rank = 0; rank < count; ++rank) {
      all.push_back([&, rank] {
        DistributedScheduler scheduler({small_net()}, deployment(wanted.secure[rank]),
                                       options(rank));
        const HarmonicGraph graph = small_net();
        for (const ProducerNode& node : graph.producers()) {
          scheduler.bindProducer(node.name, test_data(node));
        }
        scheduler.join_replicas(std::move(ends[rank]), reduction);
        scheduler.fit(1);
        scheduler.close();
        digests_[rank] = scheduler.weights_digest();
      });
    }
    return at_the_same_time(all);
  }
  static DeploymentDescriptor deployment(bool secure) {
    DeploymentDescriptor deploy;
    deploy.backend = Backend::CPU;
    deploy.secure = secure;
    return deploy;
  }
  RuntimeOptions options(std::size_t rank) const {
    RuntimeOptions runtime = test_runtime();
    runtime.micro_batches = 1;
    runtime.secure.key = std::vector{"alice", "bob", "carol"}.at(rank);
    runtime.secure.keys = keys();
    runtime.secure.chain = chain(rank);
    return runtime;
  }
  [[nodiscard]] std::filesystem::path chain(std::size_t rank) const {
    return folder_ / format("{}.{}.chain", runs_, rank);
  }
  [[nodiscard]] std::vector<Chain> chains() const {
    std::vector<Chain> all;
    for (std::size_t rank = 0; rank < digests_.size(); ++rank) {
      all.push_back(read_chain(chain(rank)));
    }
    return all;
  }
  [[nodiscard]] VerifyReport verified() const {
    return verify_chain(chains(), Roster::load(keys()));
  }

  // Changes what rank 0 sends to rank 1: rank 1 stops before it adds it.
  void expect_caught(const Attack& attack, Breach breach, const std::string& words) {
    Wanted wanted;
    wanted.down[{0, 1}] = attack;
    const std::vector<std::string> errors = train(wanted);
    EXPECT_THAT(errors[1], HasSubstr(format("custody: {}", breach_name(breach)))) << words;
    EXPECT_THAT(errors[1], HasSubstr("forward 'sums/0-1', step 1, micro-batch"));
    EXPECT_THAT(errors[1], HasSubstr(words));
    EXPECT_NE(errors[0], "");
    EXPECT_EQ(digests_[1], "");
    EXPECT_THROW(static_cast<void>(verified()), CustodyError);
  }

  TemporaryFolder folder_;
  std::vector<std::string> digests_;
  int runs_ = 0;
};

// The claims that replicas meet with are summed before anything is signed.
class Later {
 public:
  explicit Later(Attack attack) : attack_(std::move(attack)) {}
  std::vector<Message> operator()(const Message& message) {
    if (message.attachment.size() <= kMark) return {message};
    return attack_(message);
  }

 private:
  Attack attack_;
};

TEST_P(SecureReplicaTest, LearnTheSameAndVerifyInEveryOrder) {
  for (const Reduction order : {Reduction::Chain, Reduction::Tree, Reduction::Ring}) {
    for (const std::size_t count : {2u, 3u}) {
      SCOPED_TRACE(format("{} replicas, {}", count, reduction_name(order)));
      ASSERT_EQ(train({order, std::vector<bool>(count, false)}), std::vector<std::string>(count));
      const std::vector<std::string> plain = digests_;
      ASSERT_EQ(train({order, std::vector<bool>(count, true)}), std::vector<std::string>(count));
      EXPECT_EQ(digests_, plain);
      const VerifyReport report = verified();
      EXPECT_EQ(report.stages.size(), 3 * count);  // the graph, its reader and the sums
      EXPECT_TRUE(report.signers_known);
      for (const BoundaryReport& boundary : report.boundaries) {
        if (!boundary.boundary.name.starts_with("sums/")) continue;
        EXPECT_GT(boundary.forward + boundary.backward, 0u);
        EXPECT_EQ(boundary.boundary.from.substr(boundary.boundary.from.size() - 5), "/sums");
      }
    }
  }
}

TEST_P(SecureReplicaTest, ChangedGradients) {
  expect_caught(Later([](const Message& m) { return std::vector{with_flipped_bit(m)}; }),
                Breach::kFlippedTensor, "they were changed on the way");
  expect_caught(Later([](Message m) {
                  m.attachment[kMark - 1] ^= std::byte{1};  // the way
                  return std::vector{std::move(m)};
                }),
                Breach::kSubstitutedKey, "or was changed on the way");
  Wanted back;
  back.up[{0, 1}] = Later([](const Message& m) { return std::vector{with_flipped_bit(m)}; });
  EXPECT_THAT(train(back)[0], HasSubstr("custody: altered tensor: backward 'sums/0-1', step 1"));
  // What comes back down a longer chain.
  Wanted longer{Reduction::Chain, {true, true, true}};
  longer.up[{1, 2}] = Later([](const Message& m) { return std::vector{with_flipped_bit(m)}; });
  EXPECT_THAT(train(longer)[1], HasSubstr("custody: altered tensor: backward 'sums/1-2', step 1"));
}

TEST_P(SecureReplicaTest, ReplayedAndMissingGradients) {
  std::optional<Message> first;
  expect_caught(Later([first](const Message& m) mutable {
                  if (!first) first = m;
                  return std::vector{with_content_of(m, *first)};
                }),
                Breach::kReplay, "came again");
  expect_caught(Later([](Message m) {
                  m.attachment.resize(kMark);
                  return std::vector{std::move(m)};
                }),
                Breach::kDrop, "without its link");
  std::optional<Message> held;
  expect_caught(Later([held](const Message& m) mutable -> std::vector<Message> {
                  if (!held) {
                    held = m;
                    return {};
                  }
                  return {with_content_of(*held, m), with_content_of(m, *held)};
                }),
                Breach::kReorder, "which was held back");
}

TEST_P(SecureReplicaTest, AnotherKeyAndAnotherRun) {
  const SigningKey mallory = SigningKey::make("mallory");
  expect_caught(Later([&](const Message& m) { return std::vector{signed_by(mallory, m, kMark)}; }),
                Breach::kSubstitutedKey, "(signer 'alice')");
  const auto recorded = std::make_shared<std::optional<Message>>();
  Wanted honest;
  honest.down[{0, 1}] = Later([recorded](const Message& m) {
    if (!*recorded) *recorded = m;
    return std::vector{m};
  });
  ASSERT_EQ(train(honest), std::vector<std::string>(2));
  expect_caught(
      Later([&](const Message& m) { return std::vector{with_content_of(m, **recorded)}; }),
      Breach::kOtherRun, "another run");
}

TEST_P(SecureReplicaTest, WhoSignsNothingIsRefused) {
  const std::vector<std::string> errors = train({Reduction::Chain, {true, false}});
  EXPECT_THAT(errors[0] + errors[1], HasSubstr(", secure'"));
}

TEST_P(SecureReplicaTest, AStrangerIsRefused) {
  std::filesystem::remove(keys() / "bob.pub");
  const std::vector<std::string> errors = train({});
  EXPECT_THAT(errors[0], HasSubstr("part 'net#1' signs as 'bob', of whom there is no public key"));
}

TEST_P(SecureReplicaTest, ATruncatedChainDoesNotVerify) {
  ASSERT_EQ(train({}), std::vector<std::string>(2));
  std::vector<Chain> all = chains();
  const Roster roster = Roster::load(keys());
  static_cast<void>(verify_chain(all, roster));
  all[1].records.pop_back();
  EXPECT_THROW(static_cast<void>(verify_chain(all, roster)), CustodyError);
  all.pop_back();
  EXPECT_THROW(static_cast<void>(verify_chain(all, roster)), CustodyError);
}

INSTANTIATE_TEST_SUITE_P(All, SecureReplicaTest, ::testing::ValuesIn(carriers()),
                         [](const auto& info) { return info.param.name; });

class SecureReplicaThreads : public ::testing::Test {
 protected:
  void SetUp() override { SigningKey::make("alice").save(folder_ / "keys"); }
  RuntimeOptions options() const {
    RuntimeOptions runtime = test_runtime();
    runtime.micro_batches = 1;
    runtime.secure.on = true;
    runtime.secure.keys = folder_ / "keys";
    runtime.secure.chain = folder_ / "run.chain";
    return runtime;
  }
  TemporaryFolder folder_;
};

TEST_F(SecureReplicaThreads, KeepAChainEach) {
  ReplicaScheduler scheduler({small_net()}, {.replicas = 2}, options());
  const HarmonicGraph graph = small_net();
  for (const ProducerNode& node : graph.producers()) {
    scheduler.bindProducer(node.name, test_data(node));
  }
  scheduler.fit(1);
  scheduler.close();
  const std::string lines = scheduler.proof();
  EXPECT_EQ(std::ranges::count(lines, '\n'), 3);
  const std::vector<Chain> chains = {read_chain(folder_ / "run.chain.part0"),
                                     read_chain(folder_ / "run.chain.part1")};
  static_cast<void>(verify_chain(chains, Roster::load(folder_ / "keys")));
}

TEST_F(SecureReplicaThreads, AreWhole) {
  EXPECT_THROW(ReplicaScheduler(partition_graph(small_net(), 2), {.replicas = 2}, options()),
               Error);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
