// An int8 network in the schedulers: every part proves what it computes, over every transport.
#include <harmonics/proven/proofs.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include <harmonics/base/random.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/verify.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>

#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"
#include "secure/secure_tamper_testing.h"

namespace harmonics::inline in_proven {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBatches = 3;

// A convolution with a norm and a pool, and two dense layers.
HarmonicGraph small_graph() {
  const auto width = [](std::int64_t out) { return Attributes{{"out", out}}; };
  return GraphBuilder("small")
      .producer("image", Shape{1, 4, 4})
      .producer("label", Shape{}, DType::kInt64)
      .layer("conv", "conv2d",
             {{"out", std::int64_t{3}}, {"kernel", std::int64_t{3}}, {"padding", std::int64_t{1}}},
             {"image"})
      .layer("norm", "batch_norm", {}, {"conv"}, "relu")
      .layer("pool", "max_pool", {{"kernel", std::int64_t{2}}}, {"norm"})
      .layer("flat", "flatten", {}, {"pool"})
      .layer("wide", "linear", width(12), {"flat"}, "relu")
      .layer("drop", "dropout", {}, {"wide"})
      .layer("narrow", "linear", width(4), {"drop"})
      .tap("cross_entropy", "narrow", "label")
      .consumer("prediction", "narrow", "softmax")
      .build();
}

NamedTensors random_weights(const HarmonicGraph& graph) {
  Random random(1, "weights");
  NamedTensors weights;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& spec : graph.layer_shape(i).parameters) {
      Tensor tensor = Tensor::empty(spec.shape);
      const bool spreads = spec.name == "running_var";
      for (float& value : tensor.mutable_values<float>()) {
        value = spreads ? 1.0F + std::abs(random.normal()) : random.normal() * 0.5F;
      }
      weights[graph.layers()[i].name + "." + spec.name] = tensor;
    }
  }
  return weights;
}

Tensor random_rows(std::int64_t count) {
  Tensor rows = Tensor::empty({count, 1, 4, 4});
  Random random(2, "rows");
  for (float& value : rows.mutable_values<float>()) value = random.normal();
  return rows;
}

class ProvenPartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* owner : {"alice", "bob", "carol"}) {
      SigningKey::make(owner).save(folder_ / "keys");
    }
    network_ = quantize(graph_, random_weights(graph_), random_rows(32));
    for (std::size_t i = 0; i < kBatches; ++i) {
      const auto at = static_cast<std::int64_t>(2 * i);
      batches_.push_back({{"image", random_rows(6).slice(at, at + 2)}});
    }
  }

  [[nodiscard]] RuntimeOptions runtime(ProofKind kind, const std::string& owner = "alice") const {
    RuntimeOptions options;
    options.threads = 1;
    options.secure.key = owner;
    options.secure.keys = folder_ / "keys";
    options.secure.chain = folder_ / (owner + ".chain");
    options.secure.proofs = int8_proofs(network_, kind);
    return options;
  }
  [[nodiscard]] static DeploymentDescriptor asked() {
    DeploymentDescriptor deploy;
    deploy.secure = true;
    deploy.proofs = true;
    return deploy;
  }
  void expect_right(const std::vector<NamedTensors>& outputs) const {
    ASSERT_EQ(outputs.size(), batches_.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& is = outputs[i].at("prediction");
      const Tensor expected = infer(network_, batches_[i].at("image"));
      ASSERT_EQ(is.spec(), expected.spec());
      EXPECT_TRUE(std::ranges::equal(is.bytes(), expected.bytes())) << "batch " << i;
    }
  }
  [[nodiscard]] VerifyReport verified(const std::vector<std::string>& owners) const {
    std::vector<Chain> chains;
    for (const std::string& owner : owners) {
      chains.push_back(read_chain(folder_ / (owner + ".chain")));
    }
    VerifyOptions checks;
    checks.proof = check_link_proof;
    return verify_chain(chains, Roster::load(folder_ / "keys"), checks);
  }
  void expect_refused(const std::function<void()>& action, const std::string& words) const {
    try {
      action();
      ADD_FAILURE() << "nothing was refused: " << words;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }

  const HarmonicGraph graph_ = small_graph();
  TemporaryFolder folder_;
  Int8Network network_;
  std::vector<NamedTensors> batches_;
};

TEST_F(ProvenPartsTest, EveryCutGivesTheSameBitsAndAProofPerPartAndBatch) {
  // Between the convolution and its norm too: what belongs to a layer is computed with it.
  const std::vector<std::vector<std::size_t>> cuts = {{0}, {0, 4}, {0, 1}, {0, 5}, {0, 2, 6}};
  for (const std::vector<std::size_t>& cut : cuts) {
    std::filesystem::remove(folder_ / "alice.chain");
    DistributedScheduler scheduler(cut_graph(graph_, cut), asked(), runtime(ProofKind::kParts));
    expect_right(scheduler.infer(batches_));
    scheduler.close();
    EXPECT_THAT(scheduler.proof(), HasSubstr("small"));
    const VerifyReport report = verified({"alice"});
    EXPECT_EQ(report.proofs_checked, cut.size() * kBatches);
    EXPECT_EQ(report.links, cut.size() * kBatches);
    EXPECT_TRUE(report.signers_known);
  }
}

TEST_F(ProvenPartsTest, APartPerLayerHidesWhatCrosses) {
  DistributedScheduler scheduler(cut_graph(graph_, std::vector<std::size_t>{0, 4, 6}), asked(),
                                 runtime(ProofKind::kLayers));
  expect_right(scheduler.infer(batches_));
  scheduler.close();
  EXPECT_EQ(verified({"alice"}).proofs_checked, 3 * kBatches);
}

TEST_F(ProvenPartsTest, AGraphInOneProcessIsProvenWhole) {
  RuntimeOptions options = runtime(ProofKind::kParts);
  CycleRuntime runtime(graph_, options);
  std::vector<NamedTensors> outputs;
  for (const NamedTensors& batch : batches_) outputs.push_back(runtime.infer(batch));
  expect_right(outputs);
  runtime.close();
  EXPECT_EQ(verified({"alice"}).proofs_checked, kBatches);
}

TEST_F(ProvenPartsTest, AStreamIsProvenAndJudged) {
  const auto rows = [&](const Tensor& all) {
    return std::make_shared<BatchProducer>(std::make_shared<MemoryProducer>(all), 2);
  };
  Tensor labels = Tensor::zeros({6}, DType::kInt64);
  for (std::int64_t i = 0; i < 6; ++i) {
    const NamedTensors& batch = batches_[static_cast<std::size_t>(i / 2)];
    const Tensor scores = infer(network_, batch.at("image"));
    const auto row = scores.values<float>().subspan(static_cast<std::size_t>(i % 2) * 4, 4);
    const std::int64_t best = std::ranges::max_element(row) - row.begin();
    labels.mutable_values<std::int64_t>()[static_cast<std::size_t>(i)] = i < 4 ? best : best ^ 1;
  }
  DistributedScheduler scheduler(cut_graph(graph_, std::vector<std::size_t>{0, 4}), asked(),
                                 runtime(ProofKind::kParts));
  StreamOptions options;
  options.measure = true;
  std::vector<NamedTensors> outputs;
  TapReport taps;
  options.on_batch = [&](const StreamedBatch& batch) {
    outputs.push_back(batch.outputs);
    taps += batch.taps;
  };
  static_cast<void>(
      scheduler.stream({{"image", rows(random_rows(6))}, {"label", rows(labels)}}, {}, options));
  scheduler.close();
  expect_right(outputs);
  EXPECT_EQ(taps.judged, 6);
  EXPECT_EQ(taps.correct, 4);
  EXPECT_EQ(verified({"alice"}).proofs_checked, 2 * kBatches);
}

TEST_F(ProvenPartsTest, WhatCannotBeProvenIsRefused) {
  const std::vector<HarmonicGraph> parts = cut_graph(graph_, std::vector<std::size_t>{0, 4});
  RuntimeOptions plain = runtime(ProofKind::kParts);
  plain.secure.proofs = nullptr;
  expect_refused([&] { DistributedScheduler(parts, asked(), plain); }, "harmonics quantize");
  DeploymentDescriptor deploy = asked();
  deploy.secure = false;
  expect_refused([&] { DistributedScheduler(parts, deploy, runtime(ProofKind::kParts)); },
                 "set secure too");
  expect_refused(
      [&] {
        DistributedScheduler(cut_graph(graph_, std::vector<std::size_t>{0, 2, 4}), asked(),
                             runtime(ProofKind::kParts));
      },
      "has none of the layers that can be proven (conv, wide, narrow)");
  expect_refused([&] { DistributedScheduler(parts, asked(), runtime(ProofKind::kLayers)); },
                 "cut the graph into 3 parts");
  const HarmonicGraph other = GraphBuilder("other")
                                  .producer("image", Shape{16})
                                  .layer("deep", "linear", {{"out", std::int64_t{4}}}, {"image"})
                                  .consumer("prediction", "deep")
                                  .build();
  expect_refused([&] { DistributedScheduler({other}, asked(), runtime(ProofKind::kParts)); },
                 "layer 'deep' of 'other' is not in the int8 network of graph 'small'");
  PipelineOptions packed;
  packed.packing.all.activations = 8;
  expect_refused([&] { DistributedScheduler(parts, asked(), runtime(ProofKind::kParts), packed); },
                 "a proof is about exact numbers");
  deploy = asked();
  deploy.strict = true;
  deploy.backend = Backend::GPU;
  deploy.partitions.resize(2);
  expect_refused([&] { DistributedScheduler(parts, deploy, runtime(ProofKind::kParts)); },
                 "is to be proven, which the CPU does");
}

TEST_F(ProvenPartsTest, TrainingAndOtherWeightsAreRefused) {
  DistributedScheduler scheduler(cut_graph(graph_, std::vector<std::size_t>{0, 4}), asked(),
                                 runtime(ProofKind::kParts));
  scheduler.bindProducer("image", std::make_shared<MemoryProducer>(random_rows(6)));
  scheduler.bindProducer("label",
                         std::make_shared<MemoryProducer>(Tensor::zeros({6}, DType::kInt64)));
  expect_refused([&] { scheduler.step(); }, "training cannot be proven");
  expect_refused(
      [&] { scheduler.trainer().row().stages().front()->set_parameters(random_weights(graph_)); },
      "other weights");
}

// The block of docs/guides/custody.md.
TEST_F(ProvenPartsTest, TheGuideIsRight) {
  const std::filesystem::path folder = folder_;
  const HarmonicGraph& graph = graph_;
  const NamedTensors& rows = batches_.front();
  save_int8_network(folder / "digits.int8", network_);
  std::filesystem::remove(folder / "keys" / "bob.key");
  std::filesystem::remove(folder / "keys" / "carol.key");
  ::setenv("HARMONICS_KEYS", (folder / "keys").c_str(), 1);
  DeploymentDescriptor deploy;
  deploy.secure = true;
  deploy.proofs = true;
  RuntimeOptions options;
  options.secure.proofs = int8_proofs(load_int8_network(folder / "digits.int8"));
  options.secure.chain = folder / "parts.chain";
  DistributedScheduler scheduler(partition_graph(graph, 2), deploy, options);
  const NamedTensors outputs = scheduler.infer(rows);  // the bits of infer(network, …)
  scheduler.close();
  ::unsetenv("HARMONICS_KEYS");
  batches_.resize(1);
  expect_right({outputs});
  EXPECT_EQ(verified({"parts"}).proofs_checked, 2u);
}

/// Three parts, each with a scheduler, a key and a chain of its own, that meet over some transport.
class ProvenCarriersTest : public ProvenPartsTest, public ::testing::WithParamInterface<Carrier> {
 protected:
  void SetUp() override {
    if (!GetParam().is_here()) GTEST_SKIP() << "this build has no " << GetParam().name;
    ProvenPartsTest::SetUp();
  }

  // What the parts end with; the attackers stand behind the ends that send, by boundary.
  std::vector<std::string> run(ProofKind kind, const std::map<std::string, Attack>& attacks = {}) {
    const std::vector<HarmonicGraph> parts = cut_graph(graph_, std::vector<std::size_t>{0, 4, 6});
    const std::vector<std::string> owners = {"alice", "bob", "carol"};
    std::vector<std::unique_ptr<RemoteScheduler>> runs;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::filesystem::remove(folder_ / (owners[i] + ".chain"));
      RemoteOptions options = test_remote();
      options.closing = std::chrono::milliseconds(300);
      options.runtime = runtime(kind, owners[i]);
      runs.push_back(std::make_unique<RemoteScheduler>(
          parts[i], std::vector<RemoteBinding>{}, std::vector<RemoteBinding>{}, asked(), options));
    }
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::string name = parts[i].consumers().front().name;
      auto [sender, receiver] = connected_ends(GetParam(), name);
      const auto attack = attacks.find(name);
      runs[i]->bindConsumer(
          name, std::make_unique<AttackedTransport>(
                    std::move(sender), attack == attacks.end() ? Attack() : attack->second));
      runs[i + 1]->bindProducer(name, std::move(receiver));
    }
    outputs_.clear();
    std::vector<std::function<void()>> actions;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      actions.push_back([&, i] {
        const std::unique_ptr<RemoteScheduler> own = std::move(runs[i]);
        for (const NamedTensors& batch : batches_) {
          NamedTensors made = own->infer(i == 0 ? batch : NamedTensors{});
          if (i + 1 == parts.size()) outputs_.push_back(std::move(made));
        }
        own->close();
      });
    }
    return at_the_same_time(actions);
  }
  void expect_caught(ProofKind kind, const std::map<std::string, Attack>& attacks,
                     std::size_t finder, const std::string& words) {
    const std::vector<std::string> errors = run(kind, attacks);
    EXPECT_THAT(errors[finder], HasSubstr(words));
    EXPECT_THAT(errors[finder], HasSubstr(finder == 1 ? "forward 'flat@1'" : "forward 'drop@2'"));
    EXPECT_ANY_THROW(static_cast<void>(verified({"alice", "bob", "carol"})));
  }

  std::vector<NamedTensors> outputs_;
};

TEST_P(ProvenCarriersTest, ProcessesProveToEachOther) {
  for (const ProofKind kind : {ProofKind::kParts, ProofKind::kLayers}) {
    ASSERT_EQ(run(kind), std::vector<std::string>(3));
    expect_right(outputs_);
    const VerifyReport report = verified({"alice", "bob", "carol"});
    EXPECT_EQ(report.proofs_checked, 3 * kBatches);
    EXPECT_TRUE(report.signers_known);
    // Each proof is for a batch of its own, so that none can stand for another.
    std::set<Passage> passages;
    for (const std::string owner : {"alice", "bob", "carol"}) {
      for (const ChainRecord& record : read_chain(folder_ / (owner + ".chain")).records) {
        if (record.kind != RecordKind::kLink) continue;
        EXPECT_TRUE(passages.insert(decode_link(record.body).passage).second) << owner;
      }
    }
    EXPECT_EQ(passages.size(), 3 * kBatches);
  }
}

TEST_P(ProvenCarriersTest, AProofThatWasChangedOrIsMissing) {
  for (const ProofKind kind : {ProofKind::kParts, ProofKind::kLayers}) {
    for (const std::string boundary : {"flat@1", "drop@2"}) {
      const std::size_t finder = boundary == "flat@1" ? 1 : 2;
      expect_caught(kind, {{boundary, on_parcel([](ProofParcel& parcel) {
                              parcel.proof.proof[parcel.proof.proof.size() / 2] ^= std::byte{1};
                            })}},
                    finder, "wrong proof");
      expect_caught(
          kind, {{boundary, on_parcel([](ProofParcel& parcel) { parcel.proof.proof.clear(); })}},
          finder, "came without its proof");
      expect_caught(kind, {{boundary, on_parcel([](ProofParcel& parcel) {
                              parcel.proof.commitment[40] ^= std::byte{1};
                            })}},
                    finder, "wrong weights");
      expect_caught(kind, {{boundary, on_parcel([](ProofParcel& parcel) {
                              parcel.tensor.mutable_bytes()[0] ^= std::byte{1};
                            })}},
                    finder, "altered tensor");
    }
  }
}

// The tensor alone, as a part would send it that proves nothing.
TEST_P(ProvenCarriersTest, ATensorAlone) {
  expect_caught(ProofKind::kParts,
                {{"drop@2",
                  [](const Message& message) {
                    Message changed = message;
                    changed.tensor = decode_proof_parcel(message.tensor.bytes()).tensor;
                    return std::vector{changed};
                  }}},
                2, "a tensor with its proof was due");
}

TEST_P(ProvenCarriersTest, AProofOfAnotherBatchOrPart) {
  for (const ProofKind kind : {ProofKind::kParts, ProofKind::kLayers}) {
    StageProof kept;
    expect_caught(kind, {{"drop@2", on_parcel([&](ProofParcel& parcel) {
                            if (kept.proof.empty()) {
                              kept = parcel.proof;
                            } else {
                              parcel.proof = kept;
                            }
                          })}},
                  2, "wrong proof");
    StageProof first;
    expect_caught(kind,
                  {{"flat@1", on_parcel([&](ProofParcel& parcel) {
                      if (first.proof.empty()) first = parcel.proof;
                    })},
                   {"drop@2", on_parcel([&](ProofParcel& parcel) { parcel.proof = first; })}},
                  2, "wrong proof");
  }
}

// What opens the commitments to a layer's sums is for the receiver alone, and must do so.
TEST_P(ProvenCarriersTest, ASeedThatOpensNothing) {
  expect_caught(
      ProofKind::kLayers,
      {{"flat@1", on_parcel([](ProofParcel& parcel) { parcel.proof.opening[0] ^= std::byte{1}; })}},
      1, "wrong proof");
}

// Who signs everything rightly, and proves something else.
TEST_P(ProvenCarriersTest, APartThatProvesAnotherNetwork) {
  const Int8Network honest = network_;
  network_.layers[1].shape.outputs = 11;
  network_.layers[1].weights.resize(11 * network_.layers[1].shape.inputs);
  network_.layers[1].factors.resize(11);
  network_.layers[2].shape.inputs -= 1;
  network_.layers[2].weights.resize(4 * network_.layers[2].shape.inputs);
  const auto other = int8_proofs(network_);
  network_ = honest;
  const std::vector<HarmonicGraph> parts = cut_graph(graph_, std::vector<std::size_t>{0, 4, 6});
  std::vector<std::unique_ptr<DistributedScheduler>> runs;
  const std::vector<std::string> owners = {"alice", "bob"};
  const auto make = [&](std::size_t from, std::size_t to, const std::string& owner,
                        const std::shared_ptr<const ProvingStages>& proofs) {
    RemoteOptions options = test_remote();
    options.closing = std::chrono::milliseconds(300);
    options.runtime = runtime(ProofKind::kParts, owner);
    options.runtime.secure.proofs = proofs;
    runs.push_back(std::make_unique<DistributedScheduler>(
        std::vector<HarmonicGraph>(parts.begin() + static_cast<std::ptrdiff_t>(from),
                                   parts.begin() + static_cast<std::ptrdiff_t>(to)),
        asked(), options));
  };
  make(0, 2, "alice", other);
  make(2, 3, "bob", int8_proofs(network_));
  auto [sender, receiver] = connected_ends(GetParam(), "drop@2");
  runs[0]->bindConsumer("drop@2", std::move(sender));
  runs[1]->bindProducer("drop@2", std::move(receiver));
  const auto errors = at_the_same_time({[&] {
                                          const auto own = std::move(runs[0]);
                                          static_cast<void>(own->infer(batches_[0]));
                                        },
                                        [&] {
                                          const auto own = std::move(runs[1]);
                                          static_cast<void>(own->Learner::infer(NamedTensors{}));
                                        }});
  EXPECT_THAT(errors[1], HasSubstr("other layers were committed to than come before 'narrow'"));
}

INSTANTIATE_TEST_SUITE_P(All, ProvenCarriersTest, ::testing::ValuesIn(carriers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace harmonics::inline in_proven
