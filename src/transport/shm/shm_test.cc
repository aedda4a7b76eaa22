// Shared memory: ring and blocks on their own, and a whole boundary between processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include <harmonics/base/random.h>
#include <harmonics/transport/hosts.h>

#include <error_testing.h>

#include "endpoint_testing.h"
#include "frame/frame_testing.h"
#include "shm_blocks.h"
#include "shm_connection.h"
#include "shm_ring.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RemoteBinding unique_binding() {
  return {unique_name("shm"), "localhost", 1, RemoteTransport::SharedMemory};
}

Message of_floats(std::int64_t count, float value) {
  Message message;
  message.tensor = Tensor::empty({count});
  for (float& to : message.tensor.mutable_values<float>()) to = value;
  return message;
}

// --- a process that dies: first, while this program has a single thread ---

TEST(ShmProcess, APeerThatIsKilledIsNoticed) {
  const RemoteBinding binding = unique_binding();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const TransportPtr end = make_transport(binding);
    end->send(of_floats(100'000, 3), patient());
    (void)end->receive(patient());  // never comes
    ::_exit(0);
  }
  const TransportPtr end = make_transport(binding);
  const Message message = end->receive(patient()).value();
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_THAT(error_of([&] { (void)end->receive(patient()); }),
              AllOf(HasSubstr("unavailable"), HasSubstr(binding.name), HasSubstr("died")));
  EXPECT_THAT(error_of([&] { end->send(of_floats(1, 1), patient()); }), HasSubstr("died"));
  EXPECT_TRUE(same_message(message, of_floats(100'000, 3))) << "what came stays readable";
}

// --- the ring ---

struct Ring {
  explicit Ring(std::size_t size) : bytes(size), writer(state, bytes), reader(state, bytes) {}
  ShmRingState state{};
  Bytes bytes;
  ShmRingWriter writer;
  ShmRingReader reader;
};

TEST(ShmRing, BytesGoAroundInOrder) {
  Ring ring(64);
  Random random(1, "ring");
  std::uint8_t next_in = 0, next_out = 0;
  for (int i = 0; i < 10'000; ++i) {
    Bytes in(random.below(ring.writer.room() + 1));
    for (std::byte& byte : in) byte = static_cast<std::byte>(next_in++);
    ring.writer.put(in);
    EXPECT_EQ(ring.reader.available(), static_cast<std::uint8_t>(next_in - next_out) - in.size())
        << "not shown before it is published";
    ring.writer.publish();
    Bytes out(random.below(ring.reader.available() + 1));
    ring.reader.take(out);
    ring.reader.release();
    for (const std::byte byte : out) ASSERT_EQ(byte, static_cast<std::byte>(next_out++));
  }
}

TEST(ShmRing, FullIsFull) {
  Ring ring(64);
  ring.writer.put(Bytes(64));
  ring.writer.publish();
  EXPECT_EQ(ring.writer.room(), 0u);
  Bytes some(10);
  ring.reader.take(some);
  EXPECT_EQ(ring.writer.room(), 0u) << "not before it is released";
  ring.reader.release();
  EXPECT_EQ(ring.writer.room(), 10u);
}

TEST(ShmRing, NobodyWaitsForAWriterThatHungUp) {
  Ring ring(64);
  const Deadline until = deadline_in(std::chrono::minutes(4));
  ring.writer.put(Bytes(10));
  ring.writer.publish();
  ring.writer.hang_up();
  ring.reader.wait(until);  // for the bytes
  Bytes last(10);
  ring.reader.take(last);
  EXPECT_TRUE(ring.reader.writer_gone());
  for (int i = 0; i < 3; ++i) ring.reader.wait(until);
  EXPECT_LT(std::chrono::steady_clock::now(), until);
}

TEST(ShmRing, ClaimsThatCannotBeAreRefused) {
  Ring ring(64);
  ring.state.written = 65;
  EXPECT_THAT(error_of([&] { (void)ring.reader.available(); }), HasSubstr("data_loss"));
  ring.state.read = 1000;
  EXPECT_EQ(ring.writer.room(), 0u);
}

TEST(ShmRing, ASleepingReaderIsWoken) {
  Ring ring(1 << 12);
  constexpr int kCount = 20'000;
  std::thread writer([&] {
    for (int i = 0; i < kCount; ++i) {
      while (ring.writer.room() < sizeof(i)) std::this_thread::yield();
      ring.writer.put(std::as_bytes(std::span(&i, 1)));
      ring.writer.publish();
    }
  });
  for (int i = 0; i < kCount; ++i) {
    while (ring.reader.available() == 0) ring.reader.wait(patient());
    int value = -1;
    ring.reader.take(std::as_writable_bytes(std::span(&value, 1)));
    ring.reader.release();
    ASSERT_EQ(value, i);
  }
  writer.join();
}

TEST(ShmRing, AWakeIsNotLost) {
  Ring ring(64);
  ring.reader.wake();
  ring.reader.wait(patient());  // returns although nothing came
  EXPECT_EQ(ring.reader.available(), 0u);
}

// --- blocks ---

class ShmBlocks : public ::testing::Test {
 protected:
  ShmBlocks() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    near_ = Descriptor(fds[0]);
    far_ = Descriptor(fds[1]);
    control_ = ShmRegion::create(sizeof(BlockWords));
  }
  BlockWords& words() { return *reinterpret_cast<BlockWords*>(control_->data()); }
  BlockSender sender(const BlockBudget& budget) { return {control_, words(), near_.get(), budget}; }
  BlockReceiver receiver(const BlockBudget& budget) {
    return {control_, words(), far_.get(), budget};
  }
  static Bytes filled(std::size_t size, int value) {
    return Bytes(size, static_cast<std::byte>(value));
  }
  static bool holds(const BufferPtr& buffer, int value) {
    return std::all_of(buffer->data(), buffer->data() + buffer->size(),
                       [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
  }

  Descriptor near_, far_;
  std::shared_ptr<ShmRegion> control_;
};

TEST_F(ShmBlocks, AReleasedBlockIsUsedAgain) {
  const BlockBudget budget{1 << 20, 1 << 20};
  BlockSender out = sender(budget);
  BlockReceiver in = receiver(budget);
  const std::byte* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    const BufferPtr buffer = in.open(out.fill(filled(100'000, i)), 100'000);
    EXPECT_TRUE(holds(buffer, i));
    if (i == 0) first = buffer->data();
    EXPECT_EQ(buffer->data(), first);
  }
  EXPECT_LE(out.allocated_bytes(), 200'000u);
}

TEST_F(ShmBlocks, AHeldBlockIsLeftAlone) {
  const BlockBudget budget{1 << 20, 1 << 20};
  BlockSender out = sender(budget);
  BlockReceiver in = receiver(budget);
  const BufferPtr held = in.open(out.fill(filled(70'000, 1)), 70'000);
  const BufferPtr other = in.open(out.fill(filled(70'000, 2)), 70'000);
  EXPECT_NE(held->data(), other->data());
  EXPECT_TRUE(holds(held, 1));
}

TEST_F(ShmBlocks, BeyondTheWindowReceiversCopy) {
  const BlockBudget budget{300'000, 100'000};
  BlockSender out = sender(budget);
  BlockReceiver in = receiver(budget);
  std::vector<BufferPtr> held;
  for (int i = 0; i < 50; ++i) held.push_back(in.open(out.fill(filled(100'000, i)), 100'000));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(holds(held[i], i)) << i;
  EXPECT_LE(out.allocated_bytes(), budget.total());
  EXPECT_LE(out.allocated_bytes(), 600'000u) << "most of the fifty are copies";
}

TEST_F(ShmBlocks, TheBudgetIsTheCeiling) {
  const BlockBudget budget{200'000, 100'000};
  BlockSender out = sender(budget);
  std::string error;
  int filled_blocks = 0;
  while ((error = error_of([&] { (void)out.fill(filled(100'000, 1)); })) == "no error") {
    ASSERT_LT(++filled_blocks, 1000);
  }
  EXPECT_THAT(error, AllOf(HasSubstr("resource_exhausted"), HasSubstr("gives none back")));
  EXPECT_LE(out.allocated_bytes(), budget.total());
  EXPECT_GE(filled_blocks, 4);
}

TEST_F(ShmBlocks, BlocksOfOtherSizesMakeWay) {
  const BlockBudget budget{400'000, 1'000'000};
  BlockSender out = sender(budget);
  BlockReceiver in = receiver(budget);
  for (int i = 0; i < 40; ++i) {
    const std::size_t size = i % 2 == 0 ? 70'000 : 900'000;
    const BufferPtr buffer = in.open(out.fill(filled(size, i)), size);
    EXPECT_TRUE(holds(buffer, i));
    EXPECT_LE(out.allocated_bytes(), budget.total());
  }
}

TEST_F(ShmBlocks, WhatWasNotAnnouncedIsRefused) {
  const BlockBudget budget{1 << 20, 1 << 20};
  BlockSender out = sender(budget);
  BlockReceiver in = receiver(budget);
  const BlockRef good = out.fill(filled(70'000, 1));
  const auto opening = [&](BlockRef ref, std::size_t bytes) {
    return error_of([&] { (void)in.open(ref, bytes); });
  };
  EXPECT_THAT(opening({5, 1}, 1), HasSubstr("data_loss"));
  EXPECT_THAT(opening({kMaxBlocks, 1}, 1), HasSubstr("data_loss"));
  EXPECT_THAT(opening({good.index, good.generation + 1}, 1), HasSubstr("data_loss"));
  EXPECT_THAT(opening(good, 10'000'000), HasSubstr("data_loss"));
  EXPECT_EQ(opening(good, 70'000), "no error");
  send_notice(near_.get(), {3, 1, 1 << 20}, -1, patient());
  EXPECT_THAT(opening({3, 1}, 1), HasSubstr("no sealed memory file"));
}

// --- a boundary ---

TEST(ShmTransport, WhoeverComesFirstListensAndNoPayloadTouchesASocket) {
  const RemoteBinding binding = unique_binding();
  const TransportPtr first = make_transport(binding);
  const TransportPtr second = make_transport(binding);
  for (const std::int64_t count : {10, 5'000, 3'000'000}) {
    first->send(of_floats(count, 1), patient());
    EXPECT_TRUE(same_message(second->receive(patient()).value(), of_floats(count, 1)));
    second->send(of_floats(count, 2), patient());
    EXPECT_TRUE(same_message(first->receive(patient()).value(), of_floats(count, 2)));
  }
  for (const Transport* end : {first.get(), second.get()}) {
    EXPECT_EQ(end->stats().socket_payload_sent, 0u);
    EXPECT_EQ(end->stats().socket_payload_received, 0u);
    EXPECT_GT(end->stats().bytes_received, 12'000'000u);
  }
}

TEST(ShmTransport, TheLongestRecordsFillTheWindow) {
  TransportOptions options;
  options.window = {std::uint64_t{1} << 30, 64};
  const RemoteBinding binding = unique_binding();
  const TransportPtr first = make_transport(binding, options);
  const TransportPtr second = make_transport(binding, options);
  Message message;
  message.tensor = Tensor::zeros({kInlinePayload / 4});
  message.attachment.resize(kMaxAttachmentBytes);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 64; ++i) first->send(message, patient());
    for (int i = 0; i < 64; ++i) {
      EXPECT_TRUE(same_message(second->receive(patient()).value(), message));
    }
  }
}

TEST(ShmTransport, AnotherHostIsAnError) {
  RemoteBinding binding = unique_binding();
  binding.host = "192.0.2.1";
  EXPECT_THAT(error_of([&] { (void)make_transport(binding); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("one host")));
}

TEST(ShmTransport, RunAndTokenMustAgree) {
  const RemoteBinding binding = unique_binding();
  TransportOptions options, other;
  options.run = "monday";
  options.token = "secret 81b2c4f97d0e";
  const TransportPtr first = make_transport(binding, options);
  other = options;
  other.token = "guess 7c31e85fa902b";
  const TransportPtr wrong = make_transport(binding, other);
  EXPECT_THAT(error_of([&] { (void)wrong->receive(patient()); }), HasSubstr("unauthenticated"));
  other = options;
  other.run = "tuesday";
  const TransportPtr late = make_transport(binding, other);
  EXPECT_THAT(error_of([&] { (void)late->receive(patient()); }), HasSubstr("tuesday"));
  const TransportPtr second = make_transport(binding, options);
  second->send(of_floats(1, 1), patient());
  EXPECT_TRUE(first->receive(patient()));
}

TEST(ShmTransport, TlsIsAnError) {
  TransportOptions options;
  options.tls.certificate_file = "some.pem";
  EXPECT_THAT(error_of([&] { (void)make_transport(unique_binding(), options); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("TLS")));
}

}  // namespace
}  // namespace harmonics::inline in_transport
