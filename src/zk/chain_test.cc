// A chain whose links carry proofs: checked by who has only the file.
#include <gtest/gtest.h>

#include "custody_testing.h"
#include "network_testing.h"
#include "zk_testing.h"

namespace harmonics::inline in_zk {
namespace {

class ZkChainTest : public ::testing::Test {
 protected:
  const std::vector<SigningKey> keys_ = line_keys(2);
  const Passage passage_{boundary_of(0), Direction::kForward, 0, 0};

  // part0 hands a proven product to part1; `change` may spoil the stage before it is proven.
  Chain chain_of(TestStage& stage, bool commit = true) {
    const TemporaryFolder folder;
    LineRun run(keys_, folder.path() / "run.chain");
    if (commit) {
      run.log(0).committed_weights(0, stage.committed_weights);
    } else {
      run.log(0).weights(0, sha256(stage.committed_weights));
    }
    run.log(1).weights(0, {});
    stage.context = run.log(0).context_of(passage_);
    proof_ = stage.prove();
    const std::vector<std::int64_t> shape = {stage.shape.batch, stage.shape.outputs};
    const TensorView tensor{3, shape, std::as_bytes(std::span(stage.output))};
    const Bytes attachment = run.log(0).sign_outgoing(passage_, tensor, proof_);
    run.log(1).check_incoming(passage_, tensor, attachment, proof_);
    for (std::size_t i = 0; i < 2; ++i) run.log(i).end_step();
    run.close();
    return read_chain(folder.path() / "run.chain");
  }
  [[nodiscard]] std::optional<Breach> verdict(const Chain& chain) const {
    VerifyOptions options;
    options.proof = check_link_proof;
    return breach_of([&] { (void)verify_one(chain, roster_of(keys_), options); });
  }
  static std::size_t position(const Chain& chain, RecordKind kind) {
    std::size_t at = 0;
    while (chain.records[at].kind != kind) ++at;
    return at;
  }

  Bytes proof_;
};

TEST_F(ZkChainTest, AChainWithProofsVerifies) {
  TestStage stage(dense_shape(4, 10, 6), 1);
  const Chain chain = chain_of(stage);
  VerifyOptions options;
  options.proof = check_link_proof;
  const VerifyReport report =
      verify_one(decode_chain(encode_chain(chain)), roster_of(keys_), options);
  EXPECT_EQ(report.proofs_checked, 1u);
  EXPECT_NE(summary_text(report).find("1 zero-knowledge proof(s) hold"), std::string::npos);
  // Who cannot check proofs does not pass over them.
  EXPECT_EQ(breach_of([&] { (void)verify_one(chain, roster_of(keys_)); }), Breach::kWrongProof);
}

TEST_F(ZkChainTest, AWrongProductIsFoundByTheVerifier) {
  TestStage stage(dense_shape(4, 10, 6), 1);
  ++stage.output[7];
  EXPECT_EQ(verdict(chain_of(stage)), Breach::kWrongProof);
}

TEST_F(ZkChainTest, MissingOrForeignPartsAreFound) {
  TestStage stage(dense_shape(4, 10, 6), 1);
  const Chain honest = chain_of(stage);
  ASSERT_FALSE(verdict(honest));
  Chain chain = honest;
  chain.records.erase(chain.records.begin() +
                      static_cast<std::ptrdiff_t>(position(chain, RecordKind::kProof)));
  EXPECT_EQ(verdict(chain), Breach::kWrongProof);
  chain = honest;
  chain.records[position(chain, RecordKind::kProof)].body = stage.prove();
  EXPECT_EQ(verdict(chain), Breach::kWrongProof);
  chain = honest;
  chain.records[position(chain, RecordKind::kCommitments)].body[5] ^= std::byte{1};
  EXPECT_EQ(verdict(chain), Breach::kWrongWeights);
  chain = honest;
  chain.records.erase(chain.records.begin() +
                      static_cast<std::ptrdiff_t>(position(chain, RecordKind::kCommitments)));
  EXPECT_EQ(verdict(chain), Breach::kWrongProof);
  EXPECT_EQ(verdict(chain_of(stage, false)), Breach::kWrongProof);
}

// part0 hands numbers to part1, which proves whole what it makes of them for part2.
class ZkNetworkChainTest : public ZkChainTest {
 protected:
  static constexpr std::uint8_t kInt32Code = 5;
  TestNetwork network_{{dense_layer(6, 5, true), dense_layer(5, 4, false)}, 2, 3};

  [[nodiscard]] static TensorView numbers(std::span<const std::int32_t> values,
                                          std::span<const std::int64_t> shape) {
    return {kInt32Code, shape, std::as_bytes(values)};
  }
  // `received` is what part0 sent; `proves`: whether part1 gives its proof with the link.
  [[nodiscard]] std::optional<Breach> verdict_of(const std::vector<std::int8_t>& received,
                                                 bool proves = true) {
    const TemporaryFolder folder;
    const std::vector<SigningKey> keys = line_keys(3);
    LineRun run(keys, folder.path() / "run.chain");
    const Passage enters{boundary_of(0), Direction::kForward, 0, 0};
    const Passage leaves{boundary_of(1), Direction::kForward, 0, 0};
    for (const std::size_t plain : {0, 2}) run.log(plain).weights(0, {});
    run.log(1).committed_weights(0, network_.commitment);
    const std::vector<std::int32_t> given(received.begin(), received.end());
    const std::vector<std::int64_t> given_shape = {2, 6};
    const TensorView entering = numbers(given, given_shape);
    run.log(1).check_incoming(enters, entering, run.log(0).sign_outgoing(enters, entering));
    network_.context = run.log(1).context_of(leaves);
    const Bytes proof = network_.prove();
    const NetworkClaim claim = read_network_claim(proof, network_.commitment);
    const std::vector<std::int64_t> shape = {2, 4};
    const TensorView made = numbers(claim.outputs, shape);
    const Bytes sent = proves ? proof : Bytes();
    run.log(2).check_incoming(leaves, made, run.log(1).sign_outgoing(leaves, made, sent), sent);
    for (std::size_t i = 0; i < 3; ++i) run.log(i).end_step();
    run.close();
    VerifyOptions options;
    options.proof = check_link_proof;
    const Chain chain = read_chain(folder.path() / "run.chain");
    return breach_of([&] { (void)verify_one(chain, roster_of(keys), options); });
  }
};

TEST_F(ZkNetworkChainTest, AProofIsAboutWhatItsStageReceived) {
  network_.shown = true;
  EXPECT_EQ(verdict_of(network_.input), std::nullopt);
  std::vector<std::int8_t> other = network_.input;
  other[3] = static_cast<std::int8_t>(other[3] ^ 1);
  EXPECT_EQ(verdict_of(other), Breach::kWrongProof);
  network_.shown = false;
  EXPECT_EQ(verdict_of(network_.input), Breach::kWrongProof);
}

TEST_F(ZkNetworkChainTest, WhoCommittedToWeightsGivesAProofWithEveryLink) {
  network_.shown = true;
  EXPECT_EQ(verdict_of(network_.input, false), Breach::kWrongProof);
}

}  // namespace
}  // namespace harmonics::inline in_zk
