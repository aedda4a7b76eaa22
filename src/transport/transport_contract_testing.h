// What every transport promises. A new one joins with one line in transport_contract_test.cc.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/transport/transport.h>

#include <error_testing.h>

#include "frame/frame_testing.h"

namespace harmonics::inline in_transport {

/// What a test asks of the pair of ends that it gets.
struct PairWish {
  std::string boundary = "hidden@1";
  Window window = {};
  /// Of both ends; ignored by a transport that has no such limit.
  int max_message_size = 0;
};

/// One way to make two ends that talk to each other.
struct TransportCase {
  std::string name;
  std::function<std::pair<TransportPtr, TransportPtr>(const PairWish&)> make;
  /// Whether there is a limit to the size of a message.
  bool limits_size = true;
};

class TransportContract : public ::testing::TestWithParam<TransportCase> {
 protected:
  void connect(const PairWish& wish = {}) { std::tie(a_, b_) = GetParam().make(wish); }

  /// Far away: only a broken transport gets there.
  static Deadline patient() { return deadline_in(std::chrono::minutes(2)); }
  static Deadline now() { return deadline_in(Nanoseconds(0)); }

  static Message numbered(std::uint64_t number, std::size_t floats = 4) {
    Message message;
    message.step = number;
    message.micro_batch = static_cast<std::uint32_t>(number % 7);
    message.tensor = Tensor::empty({static_cast<std::int64_t>(floats)}, DType::kFloat32);
    for (float& value : message.tensor.mutable_values<float>()) value = static_cast<float>(number);
    return message;
  }

  static bool is_numbered(const Message& message, std::uint64_t number, std::size_t floats = 4) {
    return same_message(message, numbered(number, floats));
  }

  static Message received(Transport& end) {
    std::optional<Message> message = end.receive(patient());
    EXPECT_TRUE(message.has_value()) << "the other end has closed";
    return message ? std::move(*message) : Message{};
  }

  /// Sends until the window is full; how many went.
  static std::uint64_t fill(Transport& end, std::size_t floats = 4) {
    for (std::uint64_t sent = 0;; ++sent) {
      const std::string error = error_of([&] { end.send(numbered(sent, floats), now()); });
      if (error == "no error") continue;
      EXPECT_THAT(error, ::testing::HasSubstr("deadline_exceeded"));
      return sent;
    }
  }

  TransportPtr a_;
  TransportPtr b_;
};

TEST_P(TransportContract, EveryDTypeAndShapeCrossesBothWays) {
  connect();
  const std::vector<Shape> shapes = {{}, {0}, {1}, {3, 0, 2}, {5, 7}, {2, 3, 4, 5}, {100'003}};
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (const Shape& shape : shapes) {
      Message message;
      message.kind = MessageKind::kGradient;
      message.tensor = Tensor::empty(shape, static_cast<DType>(dtype));
      Random random(1, "contract");
      for (std::byte& byte : message.tensor.mutable_bytes()) {
        byte = static_cast<std::byte>(random.below(3));
      }
      a_->send(message, patient());
      const Message there = received(*b_);
      ASSERT_TRUE(same_message(there, message)) << spec_text(message.tensor.spec());
      b_->send(there, patient());
      ASSERT_TRUE(same_message(received(*a_), message)) << spec_text(message.tensor.spec());
    }
  }
}

TEST_P(TransportContract, EverythingElseInAMessageCrosses) {
  connect();
  for (const auto kind : {MessageKind::kActivation, MessageKind::kGradient, MessageKind::kEpochEnd,
                          MessageKind::kControl}) {
    Message message;
    message.kind = kind;
    message.step = 0xffffffffffffULL;
    message.micro_batch = 0xffffffff;
    message.attachment.assign(kMaxAttachmentBytes, std::byte{0x5a});
    a_->send(message, patient());
    EXPECT_TRUE(same_message(received(*b_), message));
  }
}

TEST_P(TransportContract, TooLongAnAttachmentIsRefused) {
  connect();
  Message message = numbered(1);
  message.attachment.resize(kMaxAttachmentBytes + 1);
  EXPECT_THAT(
      error_of([&] { a_->send(message, patient()); }),
      ::testing::AllOf(::testing::HasSubstr("invalid_argument"), ::testing::HasSubstr("hidden@1")));
  a_->send(numbered(2), patient());
  EXPECT_TRUE(is_numbered(received(*b_), 2)) << "the transport stays usable";
}

TEST_P(TransportContract, TooLargeATensorIsRefusedBeforeItIsSent) {
  if (!GetParam().limits_size) GTEST_SKIP() << "no limit here";
  PairWish wish;
  wish.max_message_size = 4096;
  connect(wish);
  a_->send(numbered(1, 1024), patient());
  EXPECT_TRUE(is_numbered(received(*b_), 1, 1024));
  EXPECT_THAT(error_of([&] { a_->send(numbered(2, 1025), patient()); }),
              ::testing::AllOf(::testing::HasSubstr("resource_exhausted"),
                               ::testing::HasSubstr("hidden@1"), ::testing::HasSubstr("4100")));
  EXPECT_EQ(a_->stats().messages_sent, 1u);
}

TEST_P(TransportContract, OrderIsKeptThroughManyMessages) {
  PairWish wish;
  wish.window = {1 << 20, 5};
  connect(wish);
  constexpr std::uint64_t kCount = 2000;
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) a_->send(numbered(i, 1 + i % 100), patient());
  });
  for (std::uint64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(is_numbered(received(*b_), i, 1 + i % 100)) << i;
  }
  sender.join();
}

// Both ends send far more than a window before either would have to receive.
TEST_P(TransportContract, TrafficInBothDirectionsDoesNotDeadlock) {
  PairWish wish;
  wish.window = {64 << 10, 4};
  connect(wish);
  constexpr std::uint64_t kCount = 300;
  const auto send_all = [](Transport& end) {
    for (std::uint64_t i = 0; i < kCount; ++i) end.send(numbered(i, 5000), patient());
  };
  const auto receive_all = [](Transport& end) {
    for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_TRUE(is_numbered(received(end), i, 5000));
  };
  std::vector<std::thread> threads;
  for (Transport* end : {a_.get(), b_.get()}) {
    threads.emplace_back([&, end] { send_all(*end); });
    threads.emplace_back([&, end] { receive_all(*end); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TransportContract, SeveralThreadsMayShareAnEnd) {
  connect();
  constexpr std::uint64_t kEach = 200;
  std::vector<std::atomic<int>> seen(3 * kEach);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) a_->send(numbered(t * kEach + i), patient());
    });
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kEach; ++i) ++seen[received(*b_).step];
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
}

TEST_P(TransportContract, ReceivingPastTheDeadlineNamesBoundaryAndMessage) {
  connect();
  a_->send(numbered(1), patient());
  (void)received(*b_);
  EXPECT_THAT(
      error_of([&] { (void)b_->receive(now()); }),
      ::testing::AllOf(::testing::HasSubstr("deadline_exceeded"), ::testing::HasSubstr("hidden@1"),
                       ::testing::HasSubstr("message 2")));
  a_->send(numbered(2), patient());
  EXPECT_TRUE(is_numbered(received(*b_), 2)) << "the transport stays usable";
}

TEST_P(TransportContract, AStalledReaderStopsTheSenderAtTheMessageWindow) {
  PairWish wish;
  wish.window = {1 << 20, 6};
  connect(wish);
  a_->send(numbered(0), patient());  // once the ends have met
  (void)received(*b_);
  const std::uint64_t sent = fill(*a_);
  EXPECT_GE(sent, 6u - 1u);  // the first one may not be known as taken yet
  EXPECT_LE(sent, 6u);
  EXPECT_LE(a_->stats().peak_retained_messages, 6u);
  for (std::uint64_t i = 0; i < sent; ++i) EXPECT_TRUE(is_numbered(received(*b_), i));
  a_->send(numbered(99), patient());
  EXPECT_TRUE(is_numbered(received(*b_), 99));
}

TEST_P(TransportContract, AStalledReaderStopsTheSenderAtTheByteWindow) {
  PairWish wish;
  wish.window = {100'000, 64};
  connect(wish);
  a_->send(numbered(0), patient());
  (void)received(*b_);
  const std::uint64_t sent = fill(*a_, 2500);  // 10,000 bytes each
  EXPECT_GE(sent, 9u);
  EXPECT_LE(sent, 10u);
  EXPECT_LE(a_->stats().peak_retained_bytes, 100'000u);
  for (std::uint64_t i = 0; i < sent; ++i) EXPECT_TRUE(is_numbered(received(*b_), i, 2500));
}

TEST_P(TransportContract, AMessageLargerThanTheWindowTravelsAlone) {
  PairWish wish;
  wish.window = {1000, 8};
  connect(wish);
  for (std::uint64_t i = 0; i < 4; ++i) {
    a_->send(numbered(2 * i, 10), patient());
    std::thread sender([&] { a_->send(numbered(2 * i + 1, 100'000), patient()); });
    EXPECT_TRUE(is_numbered(received(*b_), 2 * i, 10));
    EXPECT_TRUE(is_numbered(received(*b_), 2 * i + 1, 100'000));
    sender.join();
  }
}

// A consumer may keep what it got, in any amount and order, also when the transport is gone.
TEST_P(TransportContract, ReceivedTensorsStayWhatTheyAre) {
  PairWish wish;
  wish.window = {1 << 20, 4};
  connect(wish);
  constexpr std::uint64_t kCount = 100;
  constexpr std::size_t kFloats = 20'000;
  std::vector<Message> kept;
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) a_->send(numbered(i, kFloats), patient());
  });
  for (std::uint64_t i = 0; i < kCount; ++i) {
    kept.push_back(received(*b_));
    if (i % 3 == 2) kept.erase(kept.end() - 2);
  }
  sender.join();
  a_.reset();
  b_.reset();
  for (const Message& message : kept) EXPECT_TRUE(is_numbered(message, message.step, kFloats));
}

TEST_P(TransportContract, ClosingDeliversEverythingThenEnds) {
  connect();
  for (std::uint64_t i = 0; i < 10; ++i) a_->send(numbered(i), patient());
  a_->close(patient());
  a_->close(patient());
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(is_numbered(received(*b_), i));
  EXPECT_FALSE(b_->receive(patient()).has_value());
  EXPECT_FALSE(b_->receive(patient()).has_value());
  EXPECT_THAT(error_of([&] { b_->send(numbered(0), patient()); }),
              ::testing::HasSubstr("unavailable"));
  EXPECT_THAT(error_of([&] { a_->send(numbered(0), patient()); }),
              ::testing::HasSubstr("failed_precondition"));
  EXPECT_THAT(error_of([&] { (void)a_->receive(patient()); }),
              ::testing::HasSubstr("failed_precondition"));
  b_->close(patient());
}

TEST_P(TransportContract, BothEndsMayCloseAtOnceWithMessagesUnderWay) {
  connect();
  for (std::uint64_t i = 0; i < 10; ++i) {
    a_->send(numbered(i), patient());
    b_->send(numbered(i), patient());
  }
  std::thread other([&] { EXPECT_EQ(error_of([&] { a_->close(patient()); }), "no error"); });
  EXPECT_EQ(error_of([&] { b_->close(patient()); }), "no error");
  other.join();
}

TEST_P(TransportContract, AnEndThatGoesAwayWithoutClosingIsAnError) {
  connect();
  a_->send(numbered(1), patient());
  EXPECT_TRUE(is_numbered(received(*b_), 1));
  a_.reset();
  EXPECT_THAT(error_of([&] { (void)b_->receive(patient()); }),
              ::testing::AllOf(::testing::HasSubstr("aborted"), ::testing::HasSubstr("hidden@1")));
  EXPECT_THAT(error_of([&] { b_->send(numbered(1), patient()); }), ::testing::HasSubstr("aborted"));
}

// However much is under way in both directions.
TEST_P(TransportContract, AnEndThatGoesAwayInTheMiddleOfTrafficIsAnError) {
  for (int round = 0; round < 5; ++round) {
    connect();
    std::thread sender([&] {
      std::string error;
      while ((error = error_of([&] { a_->send(numbered(1, 100'000), patient()); })) == "no error") {
        continue;
      }
      EXPECT_THAT(error, ::testing::HasSubstr("aborted"));
    });
    for (std::uint64_t i = 0; i < 3; ++i) {
      b_->send(numbered(i, 100'000), patient());
      (void)received(*b_);
    }
    b_.reset();
    sender.join();
    std::string error;
    while ((error = error_of([&] { (void)a_->receive(patient()); })) == "no error") continue;
    EXPECT_THAT(error, ::testing::HasSubstr("aborted"));
  }
}

TEST_P(TransportContract, AWaitingReceiverHearsOfTheEnd) {
  connect();
  a_->send(numbered(1), patient());
  (void)received(*b_);
  std::thread closer([&] { a_->close(patient()); });
  EXPECT_FALSE(b_->receive(patient()).has_value());
  closer.join();
}

TEST_P(TransportContract, CountsWhatCrossed) {
  connect();
  Message message = numbered(1, 1000);
  message.attachment.resize(24);
  for (int i = 0; i < 3; ++i) {
    a_->send(message, patient());
    (void)received(*b_);
  }
  const TransportStats sent = a_->stats();
  const TransportStats got = b_->stats();
  EXPECT_EQ(sent.messages_sent, 3u);
  EXPECT_EQ(sent.bytes_sent, 3u * 4024);
  EXPECT_EQ(got.messages_received, 3u);
  EXPECT_EQ(got.bytes_received, 3u * 4024);
  EXPECT_EQ(sent.messages_received, 0u);
  EXPECT_EQ(got.reconnects, 0u);
  EXPECT_EQ(a_->binding().name, "hidden@1");
}

}  // namespace harmonics::inline in_transport
