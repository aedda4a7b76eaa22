// Two and three stages talk through memory, with an attacker in between.
#include <harmonics/custody/custody_log.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "custody_testing.h"

namespace harmonics::inline in_custody {
namespace {

using ::testing::HasSubstr;

class CustodyLogTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  LineRun run_{line_keys(3), folder_.path() / "run.chain"};
  const Passage first_{boundary_of(0), Direction::kForward, 0, 0};
  const Passage second_{boundary_of(0), Direction::kForward, 0, 1};

  void SetUp() override { run_.announce_weights(); }

  // A run with the same stages and keys, or others.
  std::unique_ptr<LineRun> other_run(const std::vector<SigningKey>& keys, unsigned nonce) {
    auto run = std::make_unique<LineRun>(keys, folder_.path() / "other.chain", nonce);
    run->announce_weights();
    return run;
  }
};

TEST_F(CustodyLogTest, ARunOfThreeStagesVerifies) {
  for (std::uint64_t step = 0; step < 5; ++step) run_.step(step, 3);
  run_.close();
  const VerifyReport report =
      verify_one(read_chain(folder_.path() / "run.chain"), roster_of(line_keys(3)));
  EXPECT_TRUE(report.signers_known);
  EXPECT_EQ(report.links, 5u * 3u * 4u);
  EXPECT_EQ(report.stages[1].sent, 30u);
  EXPECT_EQ(report.stages[1].received, 30u);
  EXPECT_EQ(report.stages[1].heads, 6u);
}

TEST_F(CustodyLogTest, AFlippedBitAnywhereIsCaught) {
  const Parcel sent = run_.send(0, first_);
  for (std::size_t bit = 0; bit < sent.tensor.size() * 8; ++bit) {
    Parcel parcel = sent;
    parcel.tensor[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_EQ(breach_of([&] { run_.receive(1, first_, parcel); }), Breach::kFlippedTensor);
  }
  for (std::size_t bit = 0; bit < sent.attachment.size() * 8; ++bit) {
    Parcel parcel = sent;
    parcel.attachment[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_TRUE(breach_of([&] { run_.receive(1, first_, parcel); })) << bit;
  }
  run_.receive(1, first_, sent);
}

TEST_F(CustodyLogTest, AnotherShapeOrDtypeIsCaught) {
  const Parcel sent = run_.send(0, first_);
  const std::vector<std::int64_t> turned = {3, 2};
  EXPECT_EQ(breach_of([&] {
              run_.log(1).check_incoming(first_, {1, turned, sent.tensor}, sent.attachment);
            }),
            Breach::kFlippedTensor);
  EXPECT_EQ(breach_of([&] {
              run_.log(1).check_incoming(first_, {2, test_shape(), sent.tensor}, sent.attachment);
            }),
            Breach::kFlippedTensor);
}

TEST_F(CustodyLogTest, AReplayIsCaught) {
  const Parcel sent = run_.send(0, first_);
  run_.receive(1, first_, sent);
  EXPECT_EQ(breach_of([&] { run_.receive(1, first_, sent); }), Breach::kReplay);
  EXPECT_EQ(breach_of([&] { run_.receive(1, second_, sent); }), Breach::kReplay);
}

TEST_F(CustodyLogTest, AChangedOrderIsCaught) {
  (void)run_.send(0, first_);
  const Parcel later = run_.send(0, second_);
  EXPECT_EQ(breach_of([&] { run_.receive(1, first_, later); }), Breach::kReorder);
}

TEST_F(CustodyLogTest, ADroppedLinkIsCaughtByTheNextHead) {
  run_.receive(1, first_, run_.send(0, first_));
  (void)run_.send(0, second_);
  run_.log(0).end_step();
  const Passage next{boundary_of(0), Direction::kForward, 1, 0};
  const Parcel parcel = run_.send(0, next);
  EXPECT_EQ(breach_of([&] { run_.receive(1, next, parcel); }), Breach::kDrop);
}

TEST_F(CustodyLogTest, ATensorWithoutItsLinkIsCaught) {
  Parcel parcel = run_.send(0, first_);
  parcel.attachment.clear();
  EXPECT_EQ(breach_of([&] { run_.receive(1, first_, parcel); }), Breach::kDrop);
}

TEST_F(CustodyLogTest, ASwappedBoundaryIsCaught) {
  run_.receive(1, first_, run_.send(0, first_));
  // Stage 1 sends both ways: what is meant for stage 0 comes to stage 2.
  const Passage back{boundary_of(0), Direction::kBackward, 0, 0};
  const Passage on{boundary_of(1), Direction::kForward, 0, 0};
  const Parcel meant_for_zero = run_.send(1, back);
  EXPECT_EQ(breach_of([&] { run_.receive(2, on, meant_for_zero); }), Breach::kSwappedBoundary);
}

TEST_F(CustodyLogTest, ASubstitutedKeyIsCaught) {
  // The attacker knows everything but the key: same opening, signed with a key of its own.
  std::vector<SigningKey> keys = line_keys(3);
  const Link link = [&] {
    Parcel sent = run_.send(0, first_);
    ByteReader in(sent.attachment, "attachment");
    (void)in.number<std::uint8_t>();
    return decode_link(in.take(in.number<std::uint32_t>()));
  }();
  const Bytes encoded = encode(link);
  ByteWriter forged;
  forged.number(std::uint8_t{1});
  forged.number(static_cast<std::uint32_t>(encoded.size()));
  forged.raw(encoded);
  forged.raw(test_key("signer0", 99).sign(signed_text(kLinkPurpose, link_digest(encoded))));
  forged.number(std::uint32_t{0});
  const Bytes tensor = LineRun::tensor_of(first_);
  EXPECT_EQ(breach_of([&] { run_.log(1).check_incoming(first_, view_of(tensor), forged.bytes()); }),
            Breach::kSubstitutedKey);
}

TEST_F(CustodyLogTest, ALinkOfAnotherRunIsCaught) {
  const auto other = other_run(line_keys(3), 8);
  const Parcel parcel = other->send(0, first_);
  EXPECT_EQ(breach_of([&] { run_.receive(1, first_, parcel); }), Breach::kOtherRun);
}

TEST_F(CustodyLogTest, AForkIsCaught) {
  // Stage 0 is run twice from the same state and shows stage 1 one history, then the other.
  const auto twin = other_run(line_keys(3), 7);
  run_.receive(1, first_, run_.send(0, first_));
  run_.log(0).end_step();
  const Passage next{boundary_of(0), Direction::kForward, 1, 0};
  run_.receive(1, next, run_.send(0, next));

  twin->log(0).weights(0, sha256(bytes_of("other weights")));
  (void)twin->send(0, first_);
  twin->log(0).end_step();
  (void)twin->send(0, next);
  const Passage third{boundary_of(0), Direction::kForward, 1, 1};
  const Parcel forked = twin->send(0, third);
  EXPECT_EQ(breach_of([&] { run_.receive(1, third, forked); }), Breach::kFork);
}

TEST_F(CustodyLogTest, ARollbackIsCaught) {
  run_.step(0);
  const Bytes early = run_.log(0).save();
  run_.step(1);
  run_.step(2);
  run_.log(0).restore(early);
  const Passage next{boundary_of(0), Direction::kForward, 3, 0};
  const Parcel parcel = run_.send(0, next);
  EXPECT_EQ(breach_of([&] { run_.receive(1, next, parcel); }), Breach::kRollback);
}

TEST_F(CustodyLogTest, AReceiverThatDeniesWhatItGotIsCaught) {
  // Stage 1 claims, by its head, to have received more than stage 0 sent.
  const auto twin = other_run(line_keys(3), 7);
  twin->receive(1, first_, twin->send(0, first_));
  twin->receive(1, second_, twin->send(0, second_));
  twin->log(1).end_step();
  const Passage back{boundary_of(0), Direction::kBackward, 1, 0};
  const Parcel gradient = twin->send(1, back);
  (void)run_.send(0, first_);
  EXPECT_EQ(breach_of([&] { run_.receive(0, back, gradient); }), Breach::kDrop);
}

TEST_F(CustodyLogTest, AnAttackerBetweenAnyTwoStagesStopsTheRun) {
  int seen = 0;
  for (int target = 0; target < 8; ++target) {
    const TemporaryFolder folder;
    LineRun run(line_keys(3), folder.path() / "run.chain");
    run.announce_weights();
    int count = 0;
    run.attack = [&](Parcel& parcel) {
      if (count++ == target) parcel.tensor[5] ^= std::byte{4};
    };
    seen += breach_of([&] { run.step(0); }) == Breach::kFlippedTensor ? 1 : 0;
  }
  EXPECT_EQ(seen, 8);
}

TEST_F(CustodyLogTest, ErrorsNameTheLink) {
  Parcel parcel = run_.send(0, first_);
  parcel.tensor[0] ^= std::byte{1};
  try {
    run_.receive(1, first_, parcel);
    FAIL();
  } catch (const CustodyError& error) {
    EXPECT_THAT(error.what(), HasSubstr("custody: altered tensor: forward 'hidden@1', step 1, "
                                        "micro-batch 0"));
  }
}

TEST_F(CustodyLogTest, GoesOnFromACheckpointAsIfItHadNotStopped) {
  run_.step(0);
  run_.step(1);
  std::map<std::string, ChainPosition> positions;
  std::vector<Bytes> saved;
  for (std::size_t i = 0; i < 3; ++i) {
    saved.push_back(run_.log(i).save());
    positions[stage_name_of(i)] = run_.log(i).position();
  }
  const std::string proof = run_.log(2).proof();
  run_.step(2);  // lost: done again after the restart
  run_.start(
      std::make_shared<ChainWriter>(folder_.path() / "run.chain", run_.opening(), positions));
  for (std::size_t i = 0; i < 3; ++i) run_.log(i).restore(saved[i]);
  EXPECT_EQ(run_.log(2).proof(), proof);
  for (std::uint64_t step = 2; step < 4; ++step) run_.step(step);
  run_.close();
  EXPECT_EQ(read_chain(folder_.path() / "run.chain").records, line_chain(line_keys(3), 4).records);
}

TEST_F(CustodyLogTest, CannotBeSavedInsideAStep) {
  (void)run_.send(0, first_);
  EXPECT_THROW((void)run_.log(0).save(), Error);
}

TEST_F(CustodyLogTest, TakesOnlyTheKeyOfItsStage) {
  EXPECT_THROW(CustodyLog(run_.opening(), "part0", test_key("signer0", 50)), Error);
  EXPECT_THROW(CustodyLog(run_.opening(), "part9", test_key("signer0", 1)), Error);
}

TEST_F(CustodyLogTest, AProofNamesTheLastSignedHead) {
  run_.step(0);
  const ProofLine line = parse_proof_line(run_.log(1).proof());
  EXPECT_EQ(line.stage, "part1");
  EXPECT_EQ(line.number, 1u);
  EXPECT_EQ(line.head, digest_text(run_.log(1).position().head));
  EXPECT_EQ(line.run, digest_text(opening_digest(encode(run_.opening()))));
  EXPECT_EQ(line.signature.size(), 128u);
  EXPECT_THROW((void)parse_proof_line("harmonics-custody-1:a:b"), Error);
  EXPECT_THROW((void)parse_proof_line(""), Error);
}

TEST_F(CustodyLogTest, AProofOfATensorTravelsWithItsLink) {
  const Bytes tensor = LineRun::tensor_of(first_);
  const Bytes proof(100, std::byte{9});
  const Bytes attachment = run_.log(0).sign_outgoing(first_, view_of(tensor), proof);
  Bytes other = proof;
  other[3] ^= std::byte{1};
  EXPECT_EQ(
      breach_of([&] { run_.log(1).check_incoming(first_, view_of(tensor), attachment, other); }),
      Breach::kWrongProof);
  EXPECT_EQ(breach_of([&] { run_.log(1).check_incoming(first_, view_of(tensor), attachment); }),
            Breach::kWrongProof);
  run_.log(1).check_incoming(first_, view_of(tensor), attachment, proof);
}

}  // namespace
}  // namespace harmonics::inline in_custody
