// An int8 network in three parts that prove what they compute.
#include <harmonics/base/file.h>
#include <harmonics/proven/proven_pipeline.h>

#include <gtest/gtest.h>

#include <filesystem>

#include <harmonics/base/random.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/verify.h>
#include <harmonics/transport/bus.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_proven {
namespace {

class ProvenPipelineTest : public ::testing::Test {
 protected:
  // A convolution with a pool and two dense layers with random weights.
  void SetUp() override {
    const HarmonicGraph graph =
        GraphBuilder("small")
            .producer("image", Shape{1, 4, 4})
            .layer("conv", "conv2d",
                   {{"out", std::int64_t{3}},
                    {"kernel", std::int64_t{3}},
                    {"padding", std::int64_t{1}}},
                   {"image"}, "relu")
            .layer("pool", "max_pool", {{"kernel", std::int64_t{2}}}, {"conv"})
            .layer("flat", "flatten", {}, {"pool"})
            .layer("wide", "linear", {{"out", std::int64_t{12}}}, {"flat"}, "relu")
            .layer("drop", "dropout", {}, {"wide"})
            .layer("narrow", "linear", {{"out", std::int64_t{4}}}, {"drop"})
            .consumer("prediction", "narrow", "softmax")
            .build();
    Random random(1, "weights");
    NamedTensors weights;
    for (std::size_t i = 0; i < graph.layers().size(); ++i) {
      for (const ParameterSpec& spec : graph.layer_shape(i).parameters) {
        Tensor tensor = Tensor::empty(spec.shape);
        for (float& value : tensor.mutable_values<float>()) value = random.normal() * 0.5f;
        weights[graph.layers()[i].name + "." + spec.name] = tensor;
      }
    }
    rows_ = Tensor::empty({6, 1, 4, 4});
    for (float& value : rows_.mutable_values<float>()) value = random.normal();
    network_ = quantize(graph, weights, rows_);
  }

  [[nodiscard]] ProvenOptions options() const {
    return {
        {SigningKey::make("alice")}, folder_ / "run.chain", {}, std::chrono::seconds(60), false};
  }
  [[nodiscard]] VerifyReport verified(const Roster& roster) const {
    const Chain chain = read_chain(folder_ / "run.chain");
    VerifyOptions checks;
    checks.proof = check_link_proof;
    return verify_chain(std::span(&chain, 1), roster, checks);
  }

  TemporaryFolder folder_;
  Tensor rows_;
  Int8Network network_;
};

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.spec(), b.spec());
  EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes()));
}

TEST_F(ProvenPipelineTest, GivesTheSameBitsAndAChainThatVerifies) {
  const ProvenOptions with = options();
  ProvenPipeline pipeline(network_, with);
  expect_same(pipeline.infer(rows_), infer(network_, rows_));
  expect_same(pipeline.infer(rows_.slice(0, 2)), infer(network_, rows_.slice(0, 2)));
  pipeline.close();
  Roster roster;
  roster.add("alice", with.keys[0].public_key());
  const VerifyReport report = verified(roster);
  EXPECT_EQ(report.proofs_checked, 6u);
  EXPECT_EQ(report.stages.size(), 4u);
  EXPECT_TRUE(report.signers_known);
}

TEST_F(ProvenPipelineTest, AWholeNetworkGivesTheSameBitsAndShowsItsOutputsAlone) {
  ProvenOptions with = options();
  with.whole = true;
  ProvenPipeline pipeline(network_, with);
  expect_same(pipeline.infer(rows_), infer(network_, rows_));
  expect_same(pipeline.infer(rows_.slice(0, 2)), infer(network_, rows_.slice(0, 2)));
  pipeline.close();
  Roster roster;
  roster.add("alice", with.keys[0].public_key());
  const VerifyReport report = verified(roster);
  EXPECT_EQ(report.proofs_checked, 2u);
  EXPECT_EQ(report.stages.size(), 2u);
  // The only tensors on a boundary are the outputs.
  const Chain chain = read_chain(folder_ / "run.chain");
  EXPECT_EQ(chain.opening.boundaries.size(), 1u);
}

// A transport whose messages someone changes on the way.
class ChangedTransport final : public Transport {
 public:
  ChangedTransport(TransportPtr inner, std::function<void(Message&)> change)
      : inner_(std::move(inner)), change_(std::move(change)) {}
  void send(const Message& message, Deadline deadline) override {
    Message changed = message;
    change_(changed);
    inner_->send(changed, deadline);
  }
  std::optional<Message> receive(Deadline deadline) override { return inner_->receive(deadline); }
  void close(Deadline deadline) override { inner_->close(deadline); }
  [[nodiscard]] TransportStats stats() const override { return inner_->stats(); }
  [[nodiscard]] const RemoteBinding& binding() const override { return inner_->binding(); }

 private:
  TransportPtr inner_;
  std::function<void(Message&)> change_;
};

// What a run that sends through such a transport ends with.
std::optional<Breach> breach_of_run(const Int8Network& network, const Tensor& rows,
                                    ProvenOptions with,
                                    const std::function<void(Message&)>& change) {
  std::filesystem::remove(with.chain);
  with.connect = [change](const std::string& boundary) {
    auto ends = make_bus(boundary);
    ends.first = std::make_unique<ChangedTransport>(std::move(ends.first), change);
    return ends;
  };
  try {
    ProvenPipeline pipeline(network, with);
    (void)pipeline.infer(rows);
    (void)pipeline.infer(rows);
  } catch (const CustodyError& error) {
    return error.breach();
  }
  return std::nullopt;
}

Tensor flipped(const Tensor& tensor) {
  Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype());
  std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  copy.mutable_bytes()[3] ^= std::byte{1};
  return copy;
}

TEST_F(ProvenPipelineTest, ChangesOnTheWayStopTheRun) {
  const auto breach_with = [&](const std::function<void(Message&)>& change) {
    return breach_of_run(network_, rows_, options(), change);
  };
  EXPECT_EQ(breach_with([](Message&) {}), std::nullopt);
  EXPECT_EQ(breach_with([&](Message& message) {
              if (message.kind == MessageKind::kActivation)
                message.tensor = flipped(message.tensor);
            }),
            Breach::kFlippedTensor);
  // The proof is not the one that the link names.
  EXPECT_EQ(breach_with([&](Message& message) {
              if (!message.attachment.empty() && message.kind == MessageKind::kControl) {
                message.tensor = flipped(message.tensor);
              }
            }),
            Breach::kWrongProof);
  // The commitments are not those of the weights.
  EXPECT_EQ(breach_with([&](Message& message) {
              if (message.attachment.empty()) message.tensor = flipped(message.tensor);
            }),
            Breach::kWrongWeights);
  // The seed does not open the commitments to what came.
  EXPECT_EQ(breach_with([&](Message& message) {
              if (message.kind == MessageKind::kControl && !message.attachment.empty()) {
                message.attachment[0] ^= std::byte{1};
              }
            }),
            Breach::kWrongProof);
}

TEST_F(ProvenPipelineTest, ChangesOnTheWayOfAWholeNetworkStopTheRun) {
  ProvenOptions with = options();
  with.whole = true;
  const auto breach_with = [&](const std::function<void(Message&)>& change) {
    return breach_of_run(network_, rows_, with, change);
  };
  EXPECT_EQ(breach_with([](Message&) {}), std::nullopt);
  EXPECT_EQ(breach_with([](Message& message) {
              if (message.kind == MessageKind::kActivation) {
                message.tensor = flipped(message.tensor);
              }
            }),
            Breach::kFlippedTensor);
  // The first control message is the commitment, the others are proofs.
  int controls = 0;
  EXPECT_EQ(breach_with([&](Message& message) {
              if (message.kind == MessageKind::kControl && controls++ > 0) {
                message.tensor = flipped(message.tensor);
              }
            }),
            Breach::kWrongProof);
  // The proof of the step before.
  Tensor before;
  EXPECT_EQ(breach_with([&](Message& message) {
              if (message.kind != MessageKind::kControl) return;
              if (message.step == 0) before = message.tensor;
              if (message.step == 1) message.tensor = before;
            }),
            Breach::kWrongProof);
  // A commitment to the same network under another seed.
  const Bytes other =
      commit_network(provable_layers(network_), provable_parameters(network_), new_blinding_seed());
  controls = 0;
  EXPECT_EQ(breach_with([&](Message& message) {
              if (message.kind == MessageKind::kControl && controls++ == 0) {
                std::ranges::copy(other, message.tensor.mutable_bytes().begin());
              }
            }),
            Breach::kWrongWeights);
}

TEST_F(ProvenPipelineTest, AnUnfinishedRunIsTruncated) {
  {
    ProvenPipeline pipeline(network_, options());
    (void)pipeline.infer(rows_);
  }
  EXPECT_THROW((void)verified({}), CustodyError);
}

}  // namespace
}  // namespace harmonics::inline in_proven
