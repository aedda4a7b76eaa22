// Audits: honest runs pass, and one wrong result is found and named.
#include <harmonics/schedule/recompute.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <iostream>
#include <set>

#include <harmonics/custody/verify.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/layer_type.h>
#include <harmonics/runtime/torch_layer.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/stretch_choice.h>

#include <campaign_testing.h>
#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kStepsPerEpoch = 6;  // of test_data
constexpr std::int64_t kKeptEvery = 10;

/// Where layers of the type "shaky" give something else than they should.
struct Fault {
  std::string layer;
  std::uint64_t step = 0;
};
Fault& fault() {
  static Fault now;
  return now;
}

void register_shaky() {
  register_layer_type({"shaky", {}, 1, 1, [](const LayerQuery& q) {
                         return LayerShape{q.inputs[0], {}, 1.0};
                       }});
  register_torch_layer("shaky", [](const LayerQuery& q) {
    return [name = std::string(q.layer)](const LayerCall& call) {
      const bool wrong = call.training && fault().layer == name && fault().step == call.step;
      return wrong ? call.inputs[0] * 1.0001 : call.inputs[0] * 1.0;
    };
  });
}

class RecomputeTest : public ::testing::Test {
 protected:
  RecomputeTest() {
    register_shaky();
    fault() = {};
    SigningKey::make("alice").save(keys());
    SigningKey::make("bob").save(keys());
  }
  ~RecomputeTest() override { fault() = {}; }

  [[nodiscard]] std::filesystem::path keys() const { return folder_ / "keys"; }
  [[nodiscard]] static HarmonicGraph graph() {
    return parse_harp(R"(
harmonic audited {
  producer x {12};
  producer y {1} int64 1/1 x;
  layer in linear(16);
  layer shaky1 shaky;
  layer mid linear(16);
  layer drop dropout(0.25);
  layer shaky2 shaky;
  layer mid2 linear(16);
  layer shaky3 shaky;
  layer out linear(4);
  cycle {
    x -(relu)-> in -> shaky1 -(relu)-> mid -> drop -> shaky2 -(tanh)-> mid2 -> shaky3 -> out;
    out <-(cross_entropy)- y;
  }
})");
  }
  [[nodiscard]] static std::unique_ptr<Learner> learner(const SecureOptions& secure,
                                                        double rate = 0.01) {
    RuntimeOptions options = test_runtime();
    options.optimizer = {OptimizerKind::kAdam, rate};
    options.secure = secure;
    options.secure.on = true;
    const HarmonicGraph whole = graph();
    auto made = std::make_unique<DistributedScheduler>(partition_graph(whole, 3),
                                                       DeploymentDescriptor{}, options);
    for (const ProducerNode& node : whole.producers()) {
      made->bindProducer(node.name, test_data(node));
    }
    return made;
  }
  /// A run of all parts signed by `key`; its checkpoints are kept where `keeps`.
  [[nodiscard]] Chain run(const std::string& key, std::uint64_t steps, bool layers = true,
                          bool keeps = true) {
    SecureOptions secure;
    secure.key = key;
    secure.keys = keys();
    secure.chain = folder_ / (key + ".chain");
    secure.layers = layers;
    std::filesystem::remove(secure.chain);
    {
      const auto made = learner(secure);
      FitOptions fit;
      if (keeps) {
        fit.checkpoint = folder_ / "kept";
        fit.checkpoint_every = kKeptEvery;
        fit.keeps_checkpoints = true;
      }
      made->fit(static_cast<std::int64_t>(steps / kStepsPerEpoch), fit);
      made->close();
    }
    Chain chain = read_chain(secure.chain);
    EXPECT_TRUE(verify_chain(std::span(&chain, 1), Roster::load(keys())).signers_known);
    return chain;
  }
  [[nodiscard]] std::vector<AuditStretch> stretches(std::uint64_t steps) const {
    std::map<std::uint64_t, std::filesystem::path> kept;
    for (std::uint64_t step = kKeptEvery; step <= steps; step += kKeptEvery) {
      kept[step] = folder_ / format("kept.step{}", step);
    }
    return stretches_between(kept, steps);
  }
  [[nodiscard]] ChainAccounts again(const AuditStretch& stretch,
                                    const ChainAccounts& suspect) const {
    // Who audits computes honestly.
    const Fault before = std::exchange(fault(), {});
    const Chain chain = recompute(
        stretch, suspect, [](const SecureOptions& secure) { return learner(secure); },
        folder_ / "scratch");
    fault() = before;
    return accounts_of(std::span(&chain, 1));
  }
  [[nodiscard]] static ChainAccounts account(const Chain& chain) {
    return accounts_of(std::span(&chain, 1));
  }

  TemporaryFolder folder_;
};

TEST_F(RecomputeTest, AnAccountHoldsEveryStepOfLearning) {
  const ChainAccounts all = account(run("alice", 12));
  EXPECT_EQ(steps_in(all), 12u);
  ASSERT_EQ(all.size(), 3u);
  for (const auto& [stage, own] : all) {
    EXPECT_EQ(own.signer, "alice");
    ASSERT_EQ(own.steps.size(), 12u) << stage;
    EXPECT_EQ(own.steps.at(3).layers.size(), 4u) << stage;  // micro-batches
    EXPECT_TRUE(own.weights.contains(0) && own.weights.contains(10) && own.weights.contains(12));
  }
}

TEST_F(RecomputeTest, HonestRunsPassEveryAudit) {
  const std::uint64_t steps = campaign(60, 1002);
  const ChainAccounts suspect = account(run("alice", steps));
  const std::vector<AuditStretch> all = stretches(steps);
  const std::uint64_t audits = campaign(4, 200);
  for (std::uint64_t i = 0; i < audits; ++i) {
    const StretchChoice choice = choose_stretches(all, "1%", format("beacon {}", i));
    for (const AuditStretch& stretch : choice.stretches) {
      const auto found =
          first_disagreement(suspect, again(stretch, suspect), stretch.first, stretch.end);
      EXPECT_FALSE(found.has_value()) << disagreement_text(*found);
    }
  }
}

TEST_F(RecomputeTest, AnAuditOfAnHonestRunMayTakeAllOfIt) {
  const ChainAccounts suspect = account(run("alice", 24));
  for (const AuditStretch& stretch : stretches(24)) {
    EXPECT_FALSE(first_disagreement(suspect, again(stretch, suspect), stretch.first, stretch.end));
  }
  const AuditStretch whole{0, 24, {}};
  EXPECT_FALSE(first_disagreement(suspect, again(whole, suspect), 0, 24));
}

TEST_F(RecomputeTest, OneWrongLayerIsNamedByWhoComputesTheStep) {
  for (const std::string layer : {"shaky1", "shaky2", "shaky3"}) {
    fault() = {layer, 17};
    const ChainAccounts suspect = account(run("alice", 24));
    const AuditStretch stretch = stretches(24)[1];
    const auto found =
        first_disagreement(suspect, again(stretch, suspect), stretch.first, stretch.end);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->step, 17u);
    EXPECT_EQ(found->layer, layer);
    EXPECT_EQ(found->signer, "alice");
    EXPECT_THAT(disagreement_text(*found), HasSubstr("step 18"));
    // What follows was honestly computed from it: there is nothing to find.
    const AuditStretch after = stretches(24)[2];
    EXPECT_FALSE(first_disagreement(suspect, again(after, suspect), after.first, after.end));
    fault() = {};
  }
}

TEST_F(RecomputeTest, WithoutLayersThePartIsNamed) {
  fault() = {"shaky2", 3};
  const ChainAccounts suspect = account(run("alice", 12, /*layers=*/false));
  const AuditStretch stretch = stretches(12)[0];
  const auto found = first_disagreement(suspect, again(stretch, suspect), 0, stretch.end);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 3u);
  EXPECT_EQ(found->layer, "");
  const std::vector<HarmonicGraph> parts = partition_graph(graph(), 3);
  const auto holds = std::ranges::find_if(
      parts, [](const HarmonicGraph& part) { return part.layer_index("shaky2").has_value(); });
  EXPECT_EQ(found->stage, holds->name());
}

TEST_F(RecomputeTest, TwoAccountsPartInOneStepAndItIsComputedFromTheLastCheckpoint) {
  const std::uint64_t steps = campaign(120, 1002);
  Random random(number_from_environment("HARMONICS_SEED", 7), "fault");
  const Chain honest = run("bob", steps, true, /*keeps=*/false);
  for (std::uint64_t round = 0; round < campaign(2, 10); ++round) {
    fault() = {format("shaky{}", 1 + random.below(3)), random.below(steps)};
    const ChainAccounts suspect = account(run("alice", steps));
    const ChainAccounts challenger = account(honest);
    const auto parting = first_disagreement(suspect, challenger, 0, steps);
    ASSERT_TRUE(parting.has_value());
    EXPECT_EQ(parting->step, fault().step);
    const std::vector<AuditStretch> all = stretches(steps);
    AuditStretch stretch =
        *std::prev(std::ranges::upper_bound(all, parting->step, {}, &AuditStretch::first));
    stretch.end = parting->step + 1;
    EXPECT_LE(stretch.end - stretch.first, 12u);
    const ChainAccounts right = again(stretch, suspect);
    const auto wrong = first_disagreement(suspect, right, stretch.first, stretch.end);
    ASSERT_TRUE(wrong.has_value());
    EXPECT_EQ(wrong->step, fault().step);
    EXPECT_EQ(wrong->layer, fault().layer);
    EXPECT_EQ(wrong->signer, "alice");
    EXPECT_FALSE(first_disagreement(challenger, right, stretch.first, stretch.end));
    fault() = {};
  }
}

TEST_F(RecomputeTest, AnotherRateIsFoundInTheWeights) {
  SecureOptions secure;
  secure.key = "alice";
  secure.keys = keys();
  secure.chain = folder_ / "fast.chain";
  secure.weights_every = 1;
  const auto fast = learner(secure, 0.02);
  for (int i = 0; i < 4; ++i) fast->step();
  fast->close();
  const Chain chain = read_chain(secure.chain);
  const ChainAccounts suspect = account(chain);
  const auto found = first_disagreement(suspect, again({0, 4, {}}, suspect), 0, 4);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->kind, Disagreement::Kind::kWeights);
  EXPECT_EQ(found->step, 1u);
  EXPECT_THAT(disagreement_text(*found), HasSubstr("the weights after it"));
}

TEST_F(RecomputeTest, ACheckpointIsOfTheStepThatItsStretchBeginsWith) {
  const ChainAccounts suspect = account(run("alice", 24));
  AuditStretch wrong = stretches(24)[1];
  wrong.first = 11;
  EXPECT_THROW((void)again(wrong, suspect), Error);
}

TEST(StretchChoice, DrawsWithTheSeedAlone) {
  const std::vector<AuditStretch> all = stretches_between({{10, "a"}, {20, "b"}, {40, "c"}}, 50);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[2].first, 20u);
  EXPECT_EQ(all[2].end, 40u);
  EXPECT_EQ(choose_stretches(all, "all", "").stretches.size(), 4u);
  const StretchChoice one = choose_stretches(all, "1%", "tuesday");
  EXPECT_EQ(one.stretches.size(), 1u);
  EXPECT_EQ(choose_stretches(all, "1%", "tuesday").stretches[0].first, one.stretches[0].first);
  EXPECT_EQ(one.seed, "tuesday");
  EXPECT_FALSE(choose_stretches(all, "1%", "").seed.empty());
  std::set<std::uint64_t> drawn;
  for (int i = 0; i < 200; ++i) {
    drawn.insert(choose_stretches(all, "1%", format("{}", i)).stretches[0].first);
  }
  EXPECT_EQ(drawn.size(), 4u);
  EXPECT_EQ(choose_stretches(all, "100%", "x").stretches.size(), 4u);
}

TEST(StretchChoice, TakesStepsAndNoMoreThanTheyNeed) {
  const std::vector<AuditStretch> all = stretches_between({{10, "a"}, {20, "b"}, {40, "c"}}, 50);
  const StretchChoice steps = choose_stretches(all, "5,23-25", "");
  ASSERT_EQ(steps.stretches.size(), 2u);
  EXPECT_EQ(steps.stretches[0].end, 5u);
  EXPECT_EQ(steps.stretches[1].first, 20u);
  EXPECT_EQ(steps.stretches[1].end, 25u);
  EXPECT_EQ(choose_stretches(all, "sample=50", "s").stretches.size(), 4u);
  for (const char* how : {"", "some", "0", "51", "9-3", "1,", "sample=0", "sample=51", "0%", "101%",
                          "-1%", "x%", "nan%"}) {
    EXPECT_THROW((void)choose_stretches(all, how, ""), Error) << how;
  }
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// What an audit costs is told, not judged, where campaigns run at full length.
TEST_F(RecomputeTest, OnePercentOfTheStepsIsOnePercentOfTheWork) {
  const std::uint64_t steps = campaign(120, 1002);
  const double begun = cpu_seconds();
  const ChainAccounts suspect = account(run("alice", steps));
  const double run_s = cpu_seconds() - begun;
  const std::vector<AuditStretch> all = stretches(steps);
  std::uint64_t computed = 0;
  double audit_s = 0;
  constexpr int kAudits = 5;
  for (int i = 0; i < kAudits; ++i) {
    const double audit_begun = cpu_seconds();
    for (const AuditStretch& stretch :
         choose_stretches(all, "1%", format("cost {}", i)).stretches) {
      computed += stretch.end - stretch.first;
      EXPECT_FALSE(
          first_disagreement(suspect, again(stretch, suspect), stretch.first, stretch.end));
    }
    audit_s += cpu_seconds() - audit_begun;
  }
  // A stretch is the least that can be computed.
  EXPECT_LE(computed, kAudits * std::max<std::uint64_t>(kKeptEvery, steps / 100 + kKeptEvery));
  std::cout << format("audits of 1 %: {:.2f} % of the steps, {:.2f} % of the run's CPU seconds\n",
                      100.0 * static_cast<double>(computed) / kAudits / static_cast<double>(steps),
                      100.0 * audit_s / kAudits / run_s);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
