// Secure runs: the same weights, chains that verify, checkpoints that go on in the same chain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <harmonics/base/json.h>
#include <harmonics/base/log.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/hex.h>
#include <harmonics/custody/verify.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/transport/bus.h>

#include <fuzz_mutation_testing.h>
#include <temporary_folder_testing.h>

#include "remote/remote_testing.h"
#include "secure_meeting.h"

namespace harmonics::inline in_schedule {
namespace {

using ::testing::HasSubstr;

// Six batches of four micro-batches, there and back over each boundary.
constexpr std::uint64_t kLinksPerBoundary = 6 * 4 * 2;
// What leaves the graph, once in each micro-batch.
constexpr std::uint64_t kOutputs = 6 * 4;

class SecureTest : public ::testing::Test {
 protected:
  SecureTest() { SigningKey::make("alice").save(keys()); }

  [[nodiscard]] std::filesystem::path keys() const { return folder_ / "keys"; }
  [[nodiscard]] RuntimeOptions runtime(const std::string& chain) const {
    RuntimeOptions options = test_runtime();
    options.secure.key = "alice";
    options.secure.keys = keys();
    options.secure.chain = folder_ / chain;
    return options;
  }
  static DeploymentDescriptor secure() {
    DeploymentDescriptor deploy;
    deploy.backend = Backend::CPU;
    deploy.secure = true;
    return deploy;
  }
  template <typename Runtime>
  void bind(Runtime& runtime) const {
    for (const ProducerNode& node : graph_.producers()) {
      runtime.bindProducer(node.name, test_data(node));
    }
  }
  [[nodiscard]] DistributedScheduler scheduler(std::size_t parts, const std::string& chain,
                                               PipelineOrder order = {}) const {
    PipelineOptions pipeline;
    pipeline.order = order;
    DistributedScheduler made(partition_graph(graph_, parts), secure(), runtime(chain), pipeline);
    bind(made);
    return made;
  }
  [[nodiscard]] VerifyReport verified(const std::vector<std::string>& files) const {
    std::vector<Chain> chains;
    for (const std::string& file : files) chains.push_back(read_chain(folder_ / file));
    return verify_chain(chains, Roster::load(keys()));
  }
  static ProofLine first_line(const std::string& proof) {
    return parse_proof_line(proof.substr(0, proof.find('\n')));
  }

  TemporaryFolder folder_;
  const HarmonicGraph graph_ = zoo_graph("digits-mlp");
};

TEST_F(SecureTest, ASecureRunLearnsTheSameAndItsChainVerifies) {
  const std::string plain = weights_digest(train_alone(graph_, 1));
  for (const std::size_t parts : {1, 2, 3}) {
    const std::string file = format("{}.chain", parts);
    DistributedScheduler run = scheduler(parts, file);
    EXPECT_EQ(run.proof(), "");
    run.fit(1);
    EXPECT_EQ(run.weights_digest(), plain) << parts;
    EXPECT_EQ(first_line(run.proof()).number, 6u);
    run.close();
    EXPECT_THROW(run.step(), Error);
    const VerifyReport report = verified({file});
    EXPECT_TRUE(report.signers_known);
    EXPECT_EQ(report.links, (parts - 1) * kLinksPerBoundary + kOutputs);
    EXPECT_EQ(report.stages.size(), parts + 1);  // and the one who reads the outputs
    EXPECT_EQ(report.stages[0].weight_marks, 2u);
  }
}

TEST_F(SecureTest, EveryOrderIsSigned) {
  const std::string plain = weights_digest(train_alone(graph_, 1));
  for (const PipelineOrder order : {PipelineOrder::Sequential, PipelineOrder::GPipe}) {
    const std::string file = format("{}.chain", pipeline_order_name(order));
    DistributedScheduler run = scheduler(2, file, order);
    run.fit(1);
    EXPECT_EQ(run.weights_digest(), plain);
    run.close();
    EXPECT_EQ(verified({file}).links, kLinksPerBoundary + kOutputs);
  }
}

TEST_F(SecureTest, ARuntimeSignsDataOutputsAndWeights) {
  const std::string plain = weights_digest(train_alone(graph_, 1));
  {
    RuntimeOptions options = runtime("run.chain");
    options.secure.on = true;
    options.secure.weights_every = 2;
    CycleRuntime run(graph_, options);
    bind(run);
    run.fit(1);
    EXPECT_EQ(run.weights_digest(), plain);
    EXPECT_EQ(first_line(run.proof()).number, 6u);
    static_cast<void>(run.infer({{"image", Tensor::zeros({3, 64})}}));
    EXPECT_EQ(first_line(run.proof()).number, 7u);
  }
  const VerifyReport report = verified({"run.chain"});
  EXPECT_EQ(report.links, kOutputs + 1);
  EXPECT_EQ(report.stages[0].weight_marks, 4u);  // before steps 1, 3 and 5, and at the end
  const Chain chain = read_chain(folder_ / "run.chain");
  for (const ChainRecord& record : chain.records) {
    if (record.kind != RecordKind::kLink) continue;
    const Link link = decode_link(record.body);
    ASSERT_FALSE(link.inputs.empty());
    EXPECT_EQ(link.inputs[0].source, LinkInput::Source::kData);
    EXPECT_EQ(link.inputs[0].name, "image");
  }
}

TEST_F(SecureTest, ARuntimeGoesOnFromACheckpoint) {
  const std::string plain = weights_digest(train_alone(graph_, 2));
  RuntimeOptions options = runtime("run.chain");
  options.secure.on = true;
  {
    CycleRuntime first(graph_, options);
    bind(first);
    for (int i = 0; i < 8; ++i) {
      static_cast<void>(first.step());
      if (i == 4) first.save_checkpoint(folder_ / "point");
    }
  }
  CycleRuntime second(graph_, options);
  bind(second);
  second.load_checkpoint(folder_ / "point");
  second.fit(2);
  EXPECT_EQ(second.weights_digest(), plain);
  second.close();
  EXPECT_EQ(verified({"run.chain"}).links, 2 * kOutputs);
}

TEST_F(SecureTest, TheChainGoesOnFromACheckpoint) {
  std::string expected;
  {
    DistributedScheduler whole = scheduler(2, "whole.chain");
    whole.fit(2);
    expected = whole.weights_digest();
  }
  {
    DistributedScheduler first = scheduler(2, "run.chain");
    for (int i = 0; i < 4; ++i) static_cast<void>(first.step());
    first.save_checkpoint(folder_ / "point");
    for (int i = 0; i < 3; ++i) static_cast<void>(first.step());  // lost
  }
  DistributedScheduler second = scheduler(2, "run.chain");
  second.load_checkpoint(folder_ / "point");
  second.fit(2);
  EXPECT_EQ(second.weights_digest(), expected);
  second.close();
  const VerifyReport report = verified({"run.chain"});
  EXPECT_EQ(report.links, 2 * (kLinksPerBoundary + kOutputs));
  EXPECT_EQ(report.stages[0].weight_marks, 3u);
}

TEST_F(SecureTest, ACheckpointOfOtherPartsBeginsAnotherChain) {
  {
    DistributedScheduler first = scheduler(2, "first.chain");
    static_cast<void>(first.step());
    first.save_checkpoint(folder_ / "point");
  }
  {
    DistributedScheduler same_file = scheduler(3, "first.chain");
    same_file.load_checkpoint(folder_ / "point");
    EXPECT_THROW(static_cast<void>(same_file.step()), Error);
  }
  DistributedScheduler second = scheduler(3, "second.chain");
  second.load_checkpoint(folder_ / "point");
  static_cast<void>(second.step());
  second.close();
  EXPECT_EQ(verified({"second.chain"}).stages.size(), 4u);
  EXPECT_EQ(verified({"first.chain"}).stages.size(), 3u);
}

// Somebody changes a weight and mends the checksum.
std::string change_a_weight(const std::filesystem::path& path) {
  Safetensors content = read_safetensors(path);
  for (auto& [name, tensor] : content.tensors) {
    if (!name.starts_with("model.") || !name.ends_with(".weight")) continue;
    tensor.mutable_values<float>()[0] += 1;
    break;
  }
  return write_safetensors(path, content, /*checksum=*/true);
}

TEST_F(SecureTest, ChangedWeightsAreRefusedHoweverTheGraphIsCut) {
  const std::filesystem::path point = folder_ / "point";
  {
    DistributedScheduler first = scheduler(2, "run.chain");
    for (int i = 0; i < 3; ++i) static_cast<void>(first.step());
    first.save_checkpoint(point);
  }
  change_a_weight(point);
  for (const std::size_t parts : {1, 2, 3}) {
    DistributedScheduler second = scheduler(parts, parts == 2 ? "run.chain" : "other.chain");
    const std::string before = second.weights_digest();
    try {
      second.load_checkpoint(point);
      FAIL() << parts;
    } catch (const CustodyError& error) {
      EXPECT_EQ(error.breach(), Breach::kWrongWeights);
      for (const char* said : {"stage 'digits_mlp_0'", "step 3", "another checkpoint"}) {
        EXPECT_THAT(error.what(), HasSubstr(said));
      }
    }
    EXPECT_EQ(second.weights_digest(), before);
  }
}

TEST_F(SecureTest, ChangedWeightsOfARuntimeAreRefused) {
  RuntimeOptions options = runtime("run.chain");
  options.secure.on = true;
  {
    CycleRuntime first(graph_, options);
    bind(first);
    static_cast<void>(first.step());
    first.save_checkpoint(folder_ / "point");
  }
  change_a_weight(folder_ / "point");
  CycleRuntime second(graph_, options);
  bind(second);
  EXPECT_THROW(second.load_checkpoint(folder_ / "point"), CustodyError);
}

// An older checkpoint does not say which weights a part signed, and a forger may say anything: the
// chain has the last word.
TEST_F(SecureTest, WhatACheckpointSaysItSignedIsComparedWithTheChain) {
  const std::filesystem::path point = folder_ / "point";
  {
    DistributedScheduler first = scheduler(2, "run.chain");
    static_cast<void>(first.step());
    first.save_checkpoint(point);
  }
  Safetensors content = read_safetensors(point);
  const Json json = Json::parse(content.metadata.at("harmonics"), "state");
  const auto root_of = [&](const Safetensors& file) {
    NamedTensors own;
    for (const Json& name : json.at("custody").at("weights").at("digits_mlp_0").as_array()) {
      own.emplace(name.as_string(), file.tensors.at("model." + name.as_string()));
    }
    return digest_text(weights_root(own));
  };
  const std::string before = root_of(content);
  change_a_weight(point);
  content = read_safetensors(point);
  std::string& text = content.metadata.at("harmonics");
  ASSERT_NE(text.find(before), std::string::npos);
  text.replace(text.find(before), before.size(), root_of(content));
  write_safetensors(point, content, true);
  DistributedScheduler second = scheduler(2, "run.chain");
  second.load_checkpoint(point);
  try {
    static_cast<void>(second.step());
    FAIL();
  } catch (const CustodyError& error) {
    EXPECT_EQ(error.breach(), Breach::kWrongWeights);
    EXPECT_THAT(error.what(), HasSubstr(before));
  }
}

TEST_F(SecureTest, WeightsThatReplaceACheckpointsAreAnnounced) {
  {
    DistributedScheduler first = scheduler(2, "run.chain");
    static_cast<void>(first.step());
    first.save_checkpoint(folder_ / "point");
    static_cast<void>(first.step());
    write_safetensors(folder_ / "weights", {first.parameters(), {}});
  }
  DistributedScheduler second = scheduler(2, "run.chain");
  second.load_checkpoint(folder_ / "point");
  second.load_weights(folder_ / "weights");
  second.save_checkpoint(folder_ / "again");
  static_cast<void>(second.step());
  second.close();
  EXPECT_GE(verified({"run.chain"}).stages[0].weight_marks, 4u);
  DistributedScheduler third = scheduler(2, "run.chain");
  third.load_checkpoint(folder_ / "again");  // its mark is of the weights that it holds
}

TEST_F(SecureTest, InferenceIsSignedToo) {
  const Tensor rows = Tensor::zeros({3, 64});
  {
    DistributedScheduler run(partition_graph(graph_, 2), secure(), runtime("run.chain"));
    DistributedScheduler plain(partition_graph(graph_, 2), {}, test_runtime());
    const NamedTensors expected = plain.infer({{"image", rows}});
    for (const auto& [name, tensor] : run.infer({{"image", rows}})) {
      EXPECT_TRUE(std::ranges::equal(tensor.bytes(), expected.at(name).bytes()));
    }
    const std::vector<NamedTensors> many(5, {{"image", rows}});
    EXPECT_EQ(run.infer(many).size(), 5u);
  }
  const VerifyReport report = verified({"run.chain"});
  EXPECT_EQ(report.boundaries[0].forward, 6u);
  EXPECT_EQ(report.boundaries[0].backward, 0u);
  EXPECT_EQ(report.links, 12u);
}

TEST_F(SecureTest, WithoutAKeyTheUsersOwnIsMade) {
  std::filesystem::remove_all(keys());
  {
    RuntimeOptions options = runtime("run.chain");
    options.secure.key.clear();
    const LogCapture log;
    DistributedScheduler run(partition_graph(graph_, 2), secure(), options);
    bind(run);
    static_cast<void>(run.step());
    EXPECT_THAT(log.lines(), ::testing::Contains(HasSubstr("made the key")));
  }
  EXPECT_TRUE(verified({"run.chain"}).signers_known);
  EXPECT_EQ(Roster::load(keys()).keys().size(), 1u);
  try {
    static_cast<void>(scheduler(2, "x.chain"));  // a key that was named is not made
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("harmonics keys new alice"));
  }
}

// The block of docs/guides/custody.md.
TEST_F(SecureTest, TheGuideIsRight) {
  const std::filesystem::path folder = folder_;
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const ProducerPtr images = test_data(graph.producers()[0]);
  const ProducerPtr labels = test_data(graph.producers()[1]);
  ::setenv("HARMONICS_KEYS", keys().c_str(), 1);
  DeploymentDescriptor deploy;
  deploy.secure = true;
  RuntimeOptions options;
  options.secure.chain = folder / "run.chain";
  DistributedScheduler scheduler(partition_graph(graph, 2), deploy, options);
  scheduler.bindProducer("image", images);
  scheduler.bindProducer("label", labels);
  scheduler.fit(3);
  scheduler.close();  // signs that all parts are done
  const std::string proof = scheduler.proof();
  ::unsetenv("HARMONICS_KEYS");
  EXPECT_EQ(parse_proof_line(proof.substr(0, proof.find('\n'))).stage, "digits_mlp_0");
  EXPECT_EQ(verified({"run.chain"}).stages.size(), 3u);
}

TEST_F(SecureTest, ALossThatIsNotFiniteStopsTheRunWithoutAnEnd) {
  RuntimeOptions options = runtime("run.chain");
  options.optimizer.learning_rate = 1e30;
  options.clip_norm = 0;
  DistributedScheduler run(partition_graph(graph_, 2), secure(), options);
  bind(run);
  EXPECT_THROW(run.fit(3), Error);
  EXPECT_THROW(static_cast<void>(run.step()), Error);
  run.close();
  EXPECT_THROW(static_cast<void>(verified({"run.chain"})), CustodyError);
}

// secure_replica_test.cc has those that may.
TEST_F(SecureTest, ReplicasThatAreCutOrComeLateAreRefused) {
  std::vector<ReductionEnds> ends = make_bus_ends(ReductionOptions{}.order, 2);
  DistributedScheduler cut = scheduler(2, "cut.chain");
  EXPECT_THROW(cut.join_replicas(std::move(ends[0])), Error);
  DistributedScheduler late = scheduler(1, "late.chain");
  static_cast<void>(late.step());
  EXPECT_THROW(late.join_replicas(std::move(ends[1])), Error);
}

// Parts in processes of their own, each with a key and a chain of its own.
class SecureRemoteTest : public SecureTest {
 protected:
  SecureRemoteTest() { SigningKey::make("bob").save(keys()); }

  RemoteScheduler part(std::size_t index, const RemoteBinding& where,
                       const DeploymentDescriptor& deploy, const std::string& roster = "keys") {
    RemoteOptions options = test_remote();
    options.runtime.secure.key = index == 0 ? "alice" : "bob";
    options.runtime.secure.keys = folder_ / roster;
    options.runtime.secure.chain = folder_ / format("{}.chain", index);
    return make_part(partition_graph(graph_, 2)[index], where, options, deploy);
  }
  std::vector<std::string> train(const RemoteBinding& where, const FitOptions& fit = {},
                                 std::int64_t epochs = 1) {
    weights_.assign(2, {});
    std::vector<std::function<void()>> actions;
    for (std::size_t i = 0; i < 2; ++i) {
      actions.push_back([&, i] {
        RemoteScheduler run = part(i, where, secure());
        if (!fit.checkpoint.empty()) run.resume(fit.checkpoint);
        run.fit(epochs - run.progress().epochs_done, fit);
        run.close();
        EXPECT_NE(run.proof(), "");
        weights_[i] = run.parameters();
      });
    }
    return at_the_same_time(actions);
  }
  [[nodiscard]] std::string trained() const {
    NamedTensors all = weights_[0];
    all.insert(weights_[1].begin(), weights_[1].end());
    return weights_digest(all);
  }
  static RemoteBinding place(RemoteTransport transport, bool compress = false) {
    return {"", "127.0.0.1", reserved_port(), transport, compress};
  }
  std::vector<NamedTensors> weights_;
};

TEST_F(SecureRemoteTest, PartsApartLearnTheSameOnEveryTransportAndVerifyTogether) {
  const std::string alone = weights_digest(train_alone(graph_, 1));
  for (const RemoteTransport transport : {RemoteTransport::TCP, RemoteTransport::SharedMemory,
                                          RemoteTransport::GRPC, RemoteTransport::Flight}) {
    if (!is_built(transport)) continue;
    for (const bool compress : {false, true}) {
      for (const char* file : {"0.chain", "1.chain"}) std::filesystem::remove(folder_ / file);
      ASSERT_EQ(train(place(transport, compress)), std::vector<std::string>(2))
          << transport_name(transport);
      EXPECT_EQ(trained(), alone);
      const VerifyReport report = verified({"0.chain", "1.chain"});
      EXPECT_TRUE(report.signers_known);
      EXPECT_EQ(report.links, kLinksPerBoundary + kOutputs);
      EXPECT_NE(report.stages[0].signer, report.stages[1].signer);
      EXPECT_THROW(static_cast<void>(verified({"0.chain"})), CustodyError);
    }
  }
}

TEST_F(SecureRemoteTest, PartsApartGoOnFromACoordinatedCheckpoint) {
  const std::string alone = weights_digest(train_alone(graph_, 2));
  FitOptions fit;
  fit.checkpoint = folder_ / "run";
  fit.checkpoint_every = 4;
  ASSERT_EQ(train(place(RemoteTransport::TCP), fit, 1), std::vector<std::string>(2));
  ASSERT_EQ(train(place(RemoteTransport::TCP), fit, 2), std::vector<std::string>(2));
  EXPECT_EQ(trained(), alone);
  EXPECT_EQ(verified({"0.chain", "1.chain"}).links, 2 * (kLinksPerBoundary + kOutputs));
}

TEST_F(SecureRemoteTest, AChangedWeightInOnePartsFileIsRefused) {
  FitOptions fit;
  fit.checkpoint = folder_ / "run";
  ASSERT_EQ(train(place(RemoteTransport::TCP), fit, 1), std::vector<std::string>(2));
  Manifest manifest = read_manifest(fit.checkpoint);
  StageFile& changed = manifest.latest.stages.at(1);
  changed.sha256 = change_a_weight(folder_ / changed.file);
  write_manifest(fit.checkpoint, manifest);
  const std::vector<std::string> errors = train(place(RemoteTransport::TCP), fit, 2);
  EXPECT_THAT(errors[1], HasSubstr("wrong weights"));
  EXPECT_THAT(errors[1], HasSubstr("stage 'digits_mlp_1' signed at step 6"));
  EXPECT_NE(errors[0], "");
}

TEST_F(SecureRemoteTest, ARunThatResumesAtItsEndClosesItsChainsAgain) {
  FitOptions fit;
  fit.checkpoint = folder_ / "run";
  ASSERT_EQ(train(place(RemoteTransport::TCP), fit), std::vector<std::string>(2));
  Chain torn = read_chain(folder_ / "0.chain");
  torn.records.pop_back();
  const Bytes bytes = encode_chain(torn);
  std::ofstream(folder_ / "0.chain", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  EXPECT_THROW(static_cast<void>(verified({"0.chain", "1.chain"})), CustodyError);
  ASSERT_EQ(train(place(RemoteTransport::TCP), fit), std::vector<std::string>(2));
  EXPECT_EQ(verified({"0.chain", "1.chain"}).links, kLinksPerBoundary + kOutputs);
}

TEST_F(SecureRemoteTest, EvaluationAndInferenceAreSigned) {
  const RemoteBinding where = place(RemoteTransport::TCP);
  std::vector<std::function<void()>> actions;
  for (std::size_t i = 0; i < 2; ++i) {
    actions.push_back([&, i] {
      RemoteScheduler run = part(i, where, secure());
      NamedProducers data;
      for (const ProducerNode& node : run.graph().producers()) {
        if (!is_boundary_name(node.name)) data[node.name] = test_data(node);
      }
      static_cast<void>(run.evaluate(data));
      NamedTensors inputs;
      if (i == 0) inputs = {{"image", Tensor::zeros({3, 64})}};
      static_cast<void>(run.infer(inputs));
    });
  }
  ASSERT_EQ(at_the_same_time(actions), std::vector<std::string>(2));
  EXPECT_EQ(verified({"0.chain", "1.chain"}).links, 2 * (6u + 1u));
}

TEST_F(SecureRemoteTest, APartThatIsNotSecureIsRefused) {
  const RemoteBinding where = place(RemoteTransport::TCP);
  const auto errors = at_the_same_time(
      {[&] { part(0, where, secure()).fit(1); }, [&] { part(1, where, {}).fit(1); }});
  EXPECT_THAT(errors[0], HasSubstr("is not secure"));
  EXPECT_THAT(errors[1], HasSubstr("is not secure"));
}

TEST_F(SecureRemoteTest, KeysComeFromTheRosterAndNotFromTheOtherPart) {
  const std::filesystem::path own = folder_ / "lonely";
  std::filesystem::create_directories(own);
  for (const char* file : {"bob.key", "bob.pub"}) {
    std::filesystem::copy_file(keys() / file, own / file);
  }
  std::filesystem::permissions(own / "bob.key", std::filesystem::perms::owner_read);
  const auto run = [&] {
    const RemoteBinding where = place(RemoteTransport::TCP);
    return at_the_same_time({[&] { part(0, where, secure()).fit(1); },
                             [&] { part(1, where, secure(), "lonely").fit(1); }});
  };
  std::vector<std::string> errors = run();
  EXPECT_THAT(errors[1], HasSubstr("signers unknown"));
  EXPECT_THAT(errors[1], HasSubstr("alice.pub"));
  EXPECT_NE(errors[0], "");
  // Somebody else's key under her name.
  std::filesystem::copy_file(own / "bob.pub", own / "alice.pub");
  errors = run();
  EXPECT_THAT(errors[1], HasSubstr("substituted key"));
  EXPECT_THAT(errors[1], HasSubstr("alice.pub"));
}

TEST(SecureMeeting, ClaimsComeBackAndDamagedOnesAreErrors) {
  CustodyClaim claim;
  claim.part = {"net_0", "alice", {}, {}, {"a", "b"}};
  claim.part.key.fill(std::byte{3});
  claim.nonce.fill(std::byte{7});
  const std::string text = encode(claim);
  const CustodyClaim back = decode_custody_claim(text);
  EXPECT_EQ(back.part.outputs, claim.part.outputs);
  EXPECT_EQ(encode(back), text);
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(static_cast<void>(decode_custody_claim(text.substr(0, size))), Error);
  }
  EXPECT_THROW(static_cast<void>(decode_custody_claim(text + "x")), Error);
  FuzzMutation mutation(11, {text}, {std::string(4, '\xff'), std::string(4, '\0')});
  for (int i = 0; i < 20'000; ++i) {
    const std::string input = mutation.next();
    try {
      EXPECT_EQ(encode(decode_custody_claim(input)), input);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_schedule
