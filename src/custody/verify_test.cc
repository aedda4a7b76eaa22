// Attacks on a chain file. Unless a test says otherwise the attacker can write any bytes, mends
// every check of the file format, and lacks the keys.
#include <harmonics/custody/verify.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <harmonics/base/random.h>
#include <harmonics/custody/merkle.h>

#include <campaign_testing.h>

#include "custody_testing.h"

namespace harmonics::inline in_custody {
namespace {

using ::testing::HasSubstr;

class VerifyTest : public ::testing::Test {
 protected:
  const std::vector<SigningKey> keys_ = line_keys(3);
  const Roster roster_ = roster_of(keys_);
  Chain chain_ = line_chain(keys_, 3);

  [[nodiscard]] std::optional<Breach> verdict() const {
    return breach_of([&] { (void)verify_one(decode_chain(encode_chain(chain_)), roster_); });
  }
  // Positions of a stage's records of a kind.
  [[nodiscard]] std::vector<std::size_t> find(RecordKind kind, std::uint16_t stage) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < chain_.records.size(); ++i) {
      if (chain_.records[i].kind == kind && chain_.records[i].stage == stage) found.push_back(i);
    }
    return found;
  }
  template <typename Change>
  void change_link(std::size_t at, Change change) {
    Link link = decode_link(chain_.records[at].body);
    change(link);
    chain_.records[at].body = encode(link);
  }
  void erase(std::size_t at) {
    chain_.records.erase(chain_.records.begin() + static_cast<std::ptrdiff_t>(at));
  }
};

TEST_F(VerifyTest, AnHonestChainVerifies) {
  const VerifyReport report = verify_one(chain_, roster_);
  EXPECT_TRUE(report.signers_known);
  EXPECT_EQ(report.links, 3u * 2u * 4u);
  ASSERT_EQ(report.boundaries.size(), 2u);
  EXPECT_EQ(report.boundaries[0].forward, 6u);
  EXPECT_EQ(report.boundaries[0].backward, 6u);
  EXPECT_EQ(report.boundaries[0].shape, test_shape());
  EXPECT_THAT(summary_text(report), HasSubstr("verified: 24 hand-over(s) over 2 boundaries"));
  EXPECT_THAT(summary_text(report), HasSubstr("part0 by 'signer0'"));
  EXPECT_THAT(explain_text(report), HasSubstr("--[hidden@1]--> part1: 6 activation(s), first 2x3"));
  EXPECT_THAT(explain_text(report), HasSubstr("<--[hidden@1]-- part1: 6 gradient(s)"));
}

TEST_F(VerifyTest, RootsOfGraphsWeightsAndDataAreTold) {
  const VerifyReport report = verify_one(chain_, roster_);
  const StageReport& first = report.stages[0];
  EXPECT_EQ(first.graph, chain_.opening.stages[0].graph);
  ASSERT_EQ(first.weights.size(), first.weight_marks);
  for (const Digest& root : {first.graph, first.weights.front().root, first.weights.back().root}) {
    EXPECT_THAT(explain_text(report), HasSubstr(digest_text(root)));
  }
  std::set<Digest> roots;
  for (const std::size_t at : find(RecordKind::kLink, 0)) {
    for (const LinkInput& input : decode_link(chain_.records[at].body).inputs) {
      if (input.source == LinkInput::Source::kData) roots.insert(input.root);
    }
  }
  ASSERT_EQ(first.data.size(), 1u);
  EXPECT_EQ(first.data[0].tensors, roots.size());
  MerkleTree tree;
  for (const Digest& root : roots) tree.append(root);
  EXPECT_EQ(first.data[0].root, tree.root());
  // What one has is compared with it.
  VerifyOptions options;
  options.data = [&](const std::string&, const Digest& root) { return roots.contains(root); };
  const Chain chains[] = {chain_};
  EXPECT_EQ(verify_chain(chains, roster_, options).data_checked, roots.size());
  roots.erase(roots.begin());
  EXPECT_EQ(breach_of([&] { (void)verify_chain(chains, roster_, options); }), Breach::kWrongInput);
}

TEST_F(VerifyTest, UnknownSignersAreConsistentButUnknown) {
  const VerifyReport report = verify_one(chain_, {});
  EXPECT_FALSE(report.signers_known);
  EXPECT_THAT(summary_text(report), HasSubstr("consistent, signers unknown"));
  EXPECT_THAT(summary_text(report), HasSubstr("'signer1' (unknown)"));
}

TEST_F(VerifyTest, AFlippedBitInALink) {
  change_link(find(RecordKind::kLink, 0).back(), [](Link& link) { link.root[3] ^= std::byte{1}; });
  EXPECT_EQ(verdict(), Breach::kAltered);
}

TEST_F(VerifyTest, AReplayedLink) {
  const std::size_t at = find(RecordKind::kLink, 1)[2];
  chain_.records.insert(chain_.records.begin() + static_cast<std::ptrdiff_t>(at),
                        chain_.records[at]);
  EXPECT_EQ(verdict(), Breach::kReplay);
}

TEST_F(VerifyTest, ReorderedLinks) {
  const auto links = find(RecordKind::kLink, 0);
  std::swap(chain_.records[links[0]], chain_.records[links[1]]);
  EXPECT_EQ(verdict(), Breach::kReorder);
}

TEST_F(VerifyTest, ADroppedLink) {
  erase(find(RecordKind::kLink, 0)[2]);
  EXPECT_EQ(verdict(), Breach::kDrop);
}

TEST_F(VerifyTest, ADroppedReceipt) {
  erase(find(RecordKind::kReceipt, 2)[1]);
  EXPECT_TRUE(verdict());
}

TEST_F(VerifyTest, ASwappedBoundary) {
  change_link(find(RecordKind::kLink, 0)[0],
              [](Link& link) { link.passage.boundary = boundary_of(1); });
  EXPECT_EQ(verdict(), Breach::kSwappedBoundary);
}

TEST_F(VerifyTest, ALinkOfAnotherRun) {
  const Chain other = line_chain(keys_, 3, 8);
  const std::size_t at = find(RecordKind::kLink, 0)[1];
  chain_.records[at] = other.records[at];
  EXPECT_EQ(verdict(), Breach::kOtherRun);
}

TEST_F(VerifyTest, ASubstitutedKey) {
  // The attacker holds one key of its own and signs for part1 throughout.
  std::vector<SigningKey> keys = keys_;
  keys[1] = test_key("signer1", 77);
  chain_ = line_chain(keys, 3);
  EXPECT_EQ(verdict(), Breach::kSubstitutedKey);
  // Or only puts its key into the opening.
  chain_ = line_chain(keys_, 3);
  chain_.opening.stages[1].key = keys[1].public_key();
  EXPECT_EQ(verdict(), Breach::kSubstitutedKey);
  EXPECT_TRUE(breach_of([&] { (void)verify_one(chain_, {}); }));
}

TEST_F(VerifyTest, AHeadSignedWithAnotherKey) {
  const std::size_t at = find(RecordKind::kHead, 2)[0];
  Bytes& body = chain_.records[at].body;
  const ByteSpan head = ByteSpan(body).first(body.size() - sizeof(Signature));
  const Signature forged =
      test_key("signer2", 77).sign(signed_text(kHeadPurpose, head_digest(head)));
  std::ranges::copy(forged, body.end() - sizeof(Signature));
  EXPECT_EQ(verdict(), Breach::kSubstitutedKey);
}

TEST_F(VerifyTest, AChainReSignedWithOtherKeys) {
  chain_ = line_chain(line_keys(3, 101), 3);
  EXPECT_EQ(verdict(), Breach::kResigned);
  EXPECT_FALSE(verify_one(chain_, {}).signers_known);
}

TEST_F(VerifyTest, AFork) {
  // Stage 0 holds its key and tells another story than the one the others saw and signed.
  const TemporaryFolder folder;
  LineRun other(keys_, folder.path() / "run.chain");
  for (std::size_t i = 0; i < 3; ++i) other.log(i).weights(0, sha256(bytes_of("other weights")));
  for (std::uint64_t i = 0; i < 3; ++i) other.step(i);
  other.close();
  const Chain forked = read_chain(folder.path() / "run.chain");
  std::erase_if(chain_.records, [](const ChainRecord& r) { return r.stage == 0; });
  for (const ChainRecord& r : forked.records) {
    if (r.stage == 0) chain_.records.push_back(r);
  }
  EXPECT_EQ(verdict(), Breach::kFork);
}

TEST_F(VerifyTest, ARollback) {
  // Stage 0 holds its key, and hands in a chain that closes before what the others saw.
  const Chain early = line_chain(keys_, 1);
  std::erase_if(chain_.records, [](const ChainRecord& r) { return r.stage == 0; });
  for (const ChainRecord& r : early.records) {
    if (r.stage == 0) chain_.records.push_back(r);
  }
  const auto breach = verdict();
  EXPECT_TRUE(breach == Breach::kRollback || breach == Breach::kFork) << static_cast<int>(*breach);
  // The same, without the closing head: the last head others saw is missing.
  chain_.records.pop_back();
  EXPECT_EQ(verdict(), Breach::kRollback);
}

TEST_F(VerifyTest, ATruncatedChainWhereverItIsCut) {
  const Chain whole = chain_;
  for (std::size_t size = 0; size < whole.records.size(); ++size) {
    chain_.records.assign(whole.records.begin(),
                          whole.records.begin() + static_cast<std::ptrdiff_t>(size));
    const auto breach = verdict();
    EXPECT_TRUE(breach == Breach::kTruncated || breach == Breach::kRollback) << size;
  }
  chain_.records.assign(whole.records.begin(), whole.records.end() - 1);
  EXPECT_EQ(verdict(), Breach::kTruncated);
}

TEST_F(VerifyTest, AMissingStage) {
  std::erase_if(chain_.records, [](const ChainRecord& r) { return r.stage == 2; });
  EXPECT_TRUE(verdict());
}

TEST_F(VerifyTest, WrongInputsAndWeights) {
  change_link(find(RecordKind::kLink, 1)[0], [](Link& link) { link.inputs[0].root = {}; });
  EXPECT_EQ(verdict(), Breach::kWrongInput);
  chain_ = line_chain(keys_, 3);
  change_link(find(RecordKind::kLink, 1)[0], [](Link& link) { link.weights_step = 4; });
  EXPECT_EQ(verdict(), Breach::kWrongWeights);
}

TEST_F(VerifyTest, TheFilesOfTheStagesMakeOneRun) {
  std::vector<Chain> files(3, Chain{chain_.opening, {}});
  for (const ChainRecord& record : chain_.records) files[record.stage].records.push_back(record);
  EXPECT_TRUE(verify_chain(files, roster_).signers_known);
  files.pop_back();
  EXPECT_TRUE(breach_of([&] { (void)verify_chain(files, roster_); }));
  files.push_back(line_chain(keys_, 3, 9));
  EXPECT_EQ(breach_of([&] { (void)verify_chain(files, roster_); }), Breach::kOtherRun);
}

TEST_F(VerifyTest, TensorsAreCheckedWhereTheyAreAtHand) {
  VerifyOptions options;
  options.tensor = [](const Link& link) -> std::optional<Bytes> {
    if (link.passage.micro_batch == 1) return std::nullopt;
    return LineRun::tensor_of(link.passage);
  };
  EXPECT_EQ(verify_one(chain_, roster_, options).tensors_checked, 12u);
  options.tensor = [](const Link& link) -> std::optional<Bytes> {
    Bytes bytes = LineRun::tensor_of(link.passage);
    if (link.passage.step == 2) bytes[1] ^= std::byte{1};
    return bytes;
  };
  EXPECT_EQ(breach_of([&] { (void)verify_one(chain_, roster_, options); }), Breach::kFlippedTensor);
}

TEST_F(VerifyTest, EveryBreachHasItsOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Breach::kAlteredModel); ++i) {
    names.insert(breach_name(static_cast<Breach>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Breach::kAlteredModel) + 1);
}

// One change of any record, in any of the ways an attacker has; the checks of the file are mended.
void change_records(Chain& chain, Random& random) {
  auto& records = chain.records;
  const std::size_t at = random.below(records.size());
  const auto here = records.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(6)) {
    case 0: records.erase(here); return;
    case 1: records.insert(here, records[random.below(records.size())]); return;
    case 2: {  // another record of the same stage takes its turn
      const std::size_t other = random.below(records.size());
      if (records[other].stage == records[at].stage && records[other] != records[at]) {
        std::swap(records[at], records[other]);
        return;
      }
      records.erase(here);
      return;
    }
    case 3:
      here->stage = static_cast<std::uint16_t>((here->stage + 1 + random.below(2)) % 3);
      return;
    case 4: records.resize(at); return;
    default:
      here->body[random.below(here->body.size())] ^= static_cast<std::byte>(1 + random.below(255));
  }
}

void change_bytes(Bytes& bytes, Random& random) {
  if (bytes.empty()) return;
  const std::size_t at = random.below(bytes.size());
  const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(4)) {
    case 0: bytes.erase(here); return;
    case 1: bytes.insert(here, static_cast<std::byte>(random.below(256))); return;
    case 2: bytes.resize(at); return;
    default: *here ^= static_cast<std::byte>(1 + random.below(255));
  }
}

TEST_F(VerifyTest, NoMutationOfTheFileVerifies) {
  const Bytes honest = encode_chain(chain_);
  Random random(1, "chain bytes");
  for (std::uint64_t i = 0; i < campaign(10'000, 100'000); ++i) {
    Bytes bytes = honest;
    for (std::uint64_t n = random.below(3); n-- > 0;) change_bytes(bytes, random);
    change_bytes(bytes, random);
    if (bytes == honest) continue;
    ASSERT_TRUE(breach_of([&] { (void)verify_one(decode_chain(bytes), {}); })) << i;
  }
}

TEST_F(VerifyTest, NoMutationOfTheRecordsVerifies) {
  const Chain honest = line_chain(keys_, 2);
  Random random(2, "chain records");
  for (std::uint64_t i = 0; i < campaign(3'000, 30'000); ++i) {
    Chain chain = honest;
    change_records(chain, random);
    if (chain.records == honest.records) continue;
    ASSERT_TRUE(breach_of([&] { (void)verify_one(chain, {}); })) << i;
  }
}

TEST_F(VerifyTest, AProofLineIsAHeadOfTheChain) {
  const TemporaryFolder folder;
  LineRun run(line_keys(2), folder.path() / "run.chain");
  run.announce_weights();
  run.step(0);
  const std::string early = run.log(1).proof();
  run.step(1);
  run.close();
  const std::vector<Chain> chains = {read_chain(folder.path() / "run.chain")};
  check_proof_line(chains, early);
  check_proof_line(chains, run.log(0).proof());
  const auto breach = [&](std::string line, std::string_view from, std::string_view to) {
    line.replace(line.find(from), from.size(), to);
    return breach_of([&] { check_proof_line(chains, line); });
  };
  EXPECT_EQ(breach(early, "part1:1:", "part0:1:"), Breach::kFork);
  EXPECT_EQ(breach(early, "part1:1:", "part1:2:"), Breach::kFork);
  EXPECT_EQ(breach(early, "part1:1:", "part1:9:"), Breach::kRollback);
  EXPECT_EQ(breach(early, "part1:1:", "part7:1:"), Breach::kOtherRun);
  std::string forged = early;
  forged.back() = forged.back() == '0' ? '1' : '0';
  EXPECT_EQ(breach_of([&] { check_proof_line(chains, forged); }), Breach::kSubstitutedKey);
  LineRun other(line_keys(2), folder.path() / "other.chain", 8);
  other.announce_weights();
  other.step(0);
  EXPECT_EQ(breach_of([&] { check_proof_line(chains, other.log(1).proof()); }), Breach::kOtherRun);
}

}  // namespace
}  // namespace harmonics::inline in_custody
