// Links of custody travel with their tensors over every transport, and who changes, holds back or
// repeats a message on the way is found out.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/custody_log.h>
#include <harmonics/transport/transport.h>

#include "carriers_testing.h"

namespace harmonics::inline in_transport {
namespace {

TensorView view_of(const Tensor& tensor) {
  return {static_cast<std::uint8_t>(tensor.dtype()), tensor.shape(), tensor.bytes()};
}

class CustodyOverTransport : public ::testing::TestWithParam<Carrier> {
 protected:
  void SetUp() override {
    if (!GetParam().is_here()) GTEST_SKIP() << "this build has no " << GetParam().name;
    ends_ = connected_ends(GetParam(), "b");
    Opening opening;
    opening.stages = {{"from", "alice", alice_.public_key(), {}},
                      {"to", "bob", bob_.public_key(), {}}};
    opening.boundaries = {{"b", "from", "to"}, {"c", "from", "to"}};
    sender_ = std::make_unique<CustodyLog>(opening, "from", alice_);
    twin_ = std::make_unique<CustodyLog>(opening, "from", alice_);
    receiver_ = std::make_unique<CustodyLog>(opening, "to", bob_);
    opening.nonce.fill(std::byte{9});
    other_run_ = std::make_unique<CustodyLog>(opening, "from", alice_);
    for (CustodyLog* log : {sender_.get(), receiver_.get(), other_run_.get()}) log->weights(0, {});
    twin_->weights(0, sha256(bytes_of("other weights")));
  }

  static Message sealed(CustodyLog& log, std::uint64_t step, const std::string& boundary = "b") {
    Message message{MessageKind::kActivation, step, 0, Tensor::zeros({64, 33}), {}};
    message.attachment =
        log.sign_outgoing({boundary, Direction::kForward, step, 0}, view_of(message.tensor));
    return message;
  }

  // What the receiver says of a message that travelled, where the tensor of `step` was due.
  std::optional<Breach> verdict(const Message& message, std::uint64_t step) {
    const Deadline deadline = deadline_in(std::chrono::minutes(2));
    ends_.first->send(message, deadline);
    const std::optional<Message> came = ends_.second->receive(deadline);
    try {
      (void)receiver_->check_incoming({"b", Direction::kForward, step, 0}, view_of(came->tensor),
                                      came->attachment);
    } catch (const CustodyError& error) {
      return error.breach();
    }
    return std::nullopt;
  }

  const SigningKey alice_ = SigningKey::make("alice");
  const SigningKey bob_ = SigningKey::make("bob");
  std::pair<TransportPtr, TransportPtr> ends_;
  std::unique_ptr<CustodyLog> sender_, twin_, receiver_, other_run_;
};

TEST_P(CustodyOverTransport, WhatIsSentIsAccepted) {
  for (std::uint64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(verdict(sealed(*sender_, step), step), std::nullopt);
    sender_->end_step();
    receiver_->end_step();
  }
  EXPECT_EQ(receiver_->trail().flow("b", Direction::kForward, false).count, 5u);
}

TEST_P(CustodyOverTransport, AttackersAreFoundOut) {
  const Message first = sealed(*sender_, 0);
  Message flipped = first;
  flipped.tensor = Tensor::zeros({64, 33});
  flipped.tensor.mutable_bytes()[500] ^= std::byte{1};
  EXPECT_EQ(verdict(flipped, 0), Breach::kFlippedTensor);
  Message reshaped = first;
  reshaped.tensor = first.tensor.reshaped({33, 64});
  EXPECT_EQ(verdict(reshaped, 0), Breach::kFlippedTensor);
  Message bare = first;
  bare.attachment.clear();
  EXPECT_EQ(verdict(bare, 0), Breach::kDrop);
  EXPECT_EQ(verdict(sealed(*other_run_, 0), 0), Breach::kOtherRun);
  EXPECT_EQ(verdict(sealed(*sender_, 0, "c"), 0), Breach::kSwappedBoundary);
  Message forged = first;
  forged.attachment[forged.attachment.size() - 10] ^= std::byte{1};  // in the signature
  EXPECT_EQ(verdict(forged, 0), Breach::kSubstitutedKey);
  const Message second = sealed(*sender_, 1);
  EXPECT_EQ(verdict(second, 0), Breach::kReorder);
  EXPECT_EQ(verdict(first, 0), std::nullopt);
  EXPECT_EQ(verdict(first, 0), Breach::kReplay);
  EXPECT_EQ(verdict(second, 1), std::nullopt);
  sender_->end_step();
  EXPECT_EQ(verdict(sealed(*sender_, 2), 2), std::nullopt);
}

TEST_P(CustodyOverTransport, AForkARollbackAndADropAreFoundOut) {
  EXPECT_EQ(verdict(sealed(*sender_, 0), 0), std::nullopt);
  sender_->end_step();
  const Bytes early = sender_->save();
  EXPECT_EQ(verdict(sealed(*sender_, 1), 1), std::nullopt);
  // The same stage with another history.
  (void)sealed(*twin_, 0);
  twin_->end_step();
  (void)sealed(*twin_, 1);
  EXPECT_EQ(verdict(sealed(*twin_, 2), 2), Breach::kFork);
  sender_->end_step();
  EXPECT_EQ(verdict(sealed(*sender_, 2), 2), std::nullopt);
  // A tensor that never arrives shows in the head after it.
  (void)sealed(*sender_, 3);
  sender_->end_step();
  EXPECT_EQ(verdict(sealed(*sender_, 4), 4), Breach::kDrop);
  sender_->restore(early);
  EXPECT_EQ(verdict(sealed(*sender_, 3), 3), Breach::kRollback);
}

INSTANTIATE_TEST_SUITE_P(All, CustodyOverTransport, ::testing::ValuesIn(carriers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace harmonics::inline in_transport
