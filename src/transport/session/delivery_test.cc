#include "delivery.h"

#include <gtest/gtest.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

constexpr std::uint32_t kBoundary = 7;
constexpr Window kWide{1000, 8};

std::shared_ptr<const OutgoingMessage> message_of(std::uint64_t step) {
  Message message;
  message.step = step;
  return std::make_shared<const OutgoingMessage>(encode_message(message, Codec::kNone));
}

// Two ends on a connection that is up.
struct Pair {
  Pair() : a(kBoundary, kWide), b(kBoundary, kWide) { resume(); }
  void resume() {
    const Progress of_a = a.session().progress();
    const Progress of_b = b.session().progress();
    a.session().resume(of_b, kWide, of_a);
    b.session().resume(of_a, kWide, of_b);
  }
  // Everything that `from` has to write arrives at `to`; the types of the frames.
  static std::vector<FrameType> carry(Delivery& from, Delivery& to) {
    std::vector<FrameType> types;
    while (const std::optional<OutgoingFrame> frame = from.next_frame()) {
      types.push_back(frame->header.type);
      ReceivedFrame received;
      received.header = frame->header;
      if (frame->message) received.message.step = frame->header.sequence;
      to.arrive(received);
    }
    from.forget_delivered();
    to.forget_delivered();
    return types;
  }
  Delivery a;
  Delivery b;
};

TEST(Delivery, MessagesWaitForTheProgramInOrder) {
  Pair ends;
  ends.a.push(message_of(1));
  ends.a.push(message_of(2));
  EXPECT_EQ(Pair::carry(ends.a, ends.b).size(), 2u);
  ASSERT_TRUE(ends.b.has_message());
  EXPECT_EQ(ends.b.take().step, 1u);
  EXPECT_EQ(ends.b.take().step, 2u);
  EXPECT_FALSE(ends.b.has_message());
  EXPECT_EQ(ends.b.stats().messages_received, 2u);
  EXPECT_EQ(ends.a.stats().peak_retained_messages, 2u);
}

TEST(Delivery, WhatWasOnTheWayWhenTheConnectionWasCutGoesOutAgain) {
  Pair ends;
  ends.a.push(message_of(1));
  ASSERT_TRUE(ends.a.next_frame());  // and is lost
  EXPECT_FALSE(ends.a.next_frame());
  ends.a.cut();
  ends.b.cut();
  EXPECT_FALSE(ends.a.next_frame());
  ends.resume();
  EXPECT_EQ(Pair::carry(ends.a, ends.b), std::vector{FrameType::kMessage});
  EXPECT_TRUE(ends.b.has_message());
}

TEST(Delivery, AnEndThatTakesNoMoreCountsWhatComesAsTaken) {
  Pair ends;
  ends.a.push(message_of(1));
  (void)Pair::carry(ends.a, ends.b);
  ends.b.stop_taking();
  EXPECT_FALSE(ends.b.has_message());
  ends.a.push(message_of(2));
  (void)Pair::carry(ends.a, ends.b);
  EXPECT_FALSE(ends.b.has_message());
  EXPECT_EQ(ends.b.session().progress(), (Progress{2, 2}));
}

TEST(Delivery, ABeatIsOnlyDueAfterSilenceAndAProbeIsAnsweredWithOne) {
  Pair ends;
  ends.a.push(message_of(1));
  (void)Pair::carry(ends.a, ends.b);
  ends.a.beat();  // the message was a sign of life
  EXPECT_FALSE(ends.a.next_frame());
  ends.a.beat();
  EXPECT_EQ(Pair::carry(ends.a, ends.b), std::vector{FrameType::kProgress});
  ends.a.probe(2);
  EXPECT_EQ(Pair::carry(ends.a, ends.b), (std::vector{FrameType::kProgress, FrameType::kProgress}));
  EXPECT_EQ(Pair::carry(ends.b, ends.a), std::vector{FrameType::kProgress});
}

TEST(Delivery, LastWordsSayWhetherTheOtherEndHasItAll) {
  Pair ends;
  EXPECT_EQ(ends.a.last_words().type, FrameType::kAbandon);
  (void)ends.a.push_end();
  EXPECT_EQ(Pair::carry(ends.a, ends.b), std::vector{FrameType::kEnd});
  EXPECT_EQ(ends.a.last_words().type, FrameType::kAbandon);
  (void)Pair::carry(ends.b, ends.a);
  EXPECT_EQ(ends.a.last_words().type, FrameType::kLeave);
  EXPECT_EQ(ends.a.last_words().boundary, kBoundary);
}

TEST(Delivery, AFrameThatBreaksTheRulesIsAnError) {
  Pair ends;
  ReceivedFrame frame;
  frame.header.type = FrameType::kProgress;
  frame.header.boundary = kBoundary + 1;
  EXPECT_THROW(ends.a.arrive(frame), Error);
  frame.header.boundary = kBoundary;
  frame.header.type = FrameType::kAbandon;
  EXPECT_THROW(ends.a.arrive(frame), Error);
}

}  // namespace
}  // namespace harmonics::inline in_transport
