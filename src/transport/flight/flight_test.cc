// What is Flight's own: who is let in, strangers, and clients that know nothing of Harmonics.
#include <arrow/api.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/flight/client.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <thread>

#include <harmonics/base/log.h>
#include <harmonics/base/random.h>

#include <error_testing.h>

#include "endpoint_testing.h"
#include "flight_tensor.h"
#include "frame/frame_testing.h"
#include "socket.h"

namespace harmonics::inline in_transport {
namespace {

namespace flight = arrow::flight;
using ::testing::AllOf;
using ::testing::HasSubstr;

RemoteBinding boundary(const std::string& name) { return named(name, RemoteTransport::Flight); }

// --- a process that dies: first, while this program has a single thread ---

TEST(FlightProcess, APeerThatIsKilledIsABrokenLink) {
  RemoteBinding binding{"x", "127.0.0.1", reserved_port(), RemoteTransport::Flight};
  ListeningProcess peer(binding);
  binding.listen = false;
  const TransportPtr end = make_transport(binding);
  EXPECT_TRUE(same_message(end->receive(patient()).value(), one()));
  peer.kill();
  EXPECT_THAT(error_with(*end, "there is no link"),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("'x'"), HasSubstr("message 2")));
}

// --- who listens, who is let in ---

TEST(FlightEndpoints, BoundariesShareAServerAndAPortOfAnotherProgramIsAnError) {
  const TransportPtr a0 = listening_end(boundary("a"));
  RemoteBinding b = a0->binding();
  b.name = "b";
  const TransportPtr b0 = make_transport(b);
  const TransportPtr a1 = connecting_end(*a0);
  const TransportPtr b1 = connecting_end(*b0);
  expect_talk(*a0, *a1);
  expect_talk(*b0, *b1);

  const auto taken = listen_on(resolve("127.0.0.1", 0).front());
  RemoteBinding binding{"x", "127.0.0.1", bound_address(*taken).port(), RemoteTransport::Flight};
  binding.listen = true;
  EXPECT_THAT(error_of([&] { (void)make_transport(binding); }), HasSubstr("already_exists"));
}

TEST(FlightGreeting, TokensAndRunsMustAgree) {
  const LogCapture capture;
  TransportOptions with, other, tuesday;
  with.token = "secret 81b2c4f97d0e";
  other.token = "Secret 81b2c4f97d0e";
  tuesday = with;
  tuesday.run = "tuesday";
  const TransportPtr guarded = listening_end(boundary("x"), with);
  EXPECT_THAT(receive_error(*connecting_end(*guarded)), HasSubstr("asks for a token"));
  EXPECT_THAT(receive_error(*connecting_end(*guarded, other)), HasSubstr("another token"));
  EXPECT_THAT(receive_error(*connecting_end(*guarded, tuesday)), HasSubstr("run 'tuesday'"));
  const TransportPtr friendly = connecting_end(*guarded, with);
  expect_talk(*guarded, *friendly);
}

TEST(FlightStrangers, PlainHttpAndNoiseAreHungUpOn) {
  const TransportPtr end = listening_end(boundary("x"));
  Random random(3, "flight strangers");
  for (int i = 0; i < 10; ++i) {
    std::string words = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (i > 0) {
      words.resize(64 + random.below(2000));
      for (char& c : words) c = static_cast<char>(random.below(256));
    }
    const Descriptor socket =
        connect_to(resolve("127.0.0.1", end->binding().port).front(), patient(), WakeEvent());
    (void)::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
    std::array<char, 4096> dropped;
    for (;;) {
      const ssize_t count = ::recv(socket.get(), dropped.data(), dropped.size(), MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN)) break;
      if (count < 0) (void)wait_for(socket.get(), POLLIN, patient(), nullptr);
    }
  }
  const TransportPtr peer = connecting_end(*end);
  expect_talk(*end, *peer);
}

// --- guests ---

Message ramp(Shape shape, DType dtype) {
  Message message;
  message.kind = MessageKind::kGradient;
  message.step = 5;
  message.micro_batch = 2;
  message.attachment = {std::byte{0}, std::byte{0xff}};
  message.tensor = Tensor::empty(std::move(shape), dtype);
  int value = 0;
  for (std::byte& byte : message.tensor.mutable_bytes())
    byte = static_cast<std::byte>(++value % 60);
  return message;
}

TEST(FlightTensors, CrossIntoArrowAndBack) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt64,
                            DType::kInt32, DType::kInt8, DType::kUInt8}) {
    for (const Shape& shape : {Shape{4}, Shape{2, 3}, Shape{0, 3}, Shape{5, 2, 1, 3}}) {
      const Message message = ramp(shape, dtype);
      const ArrowMessage out = arrow_message(message);
      ASSERT_TRUE(out.batch->ValidateFull().ok());
      EXPECT_TRUE(
          same_message(message_from_arrow(out.batch.get(), out.metadata, 0, 1 << 20), message))
          << spec_text(message.tensor.spec());
    }
  }
}

TEST(FlightTensors, WhatCannotCrossIsAnError) {
  EXPECT_THAT(error_of([] { (void)arrow_message(ramp({2}, DType::kBFloat16)); }),
              HasSubstr("bfloat16"));
  const ArrowMessage out = arrow_message(ramp({2, 3}, DType::kFloat32));
  EXPECT_THAT(error_of([&] { (void)message_from_arrow(out.batch.get(), "", 0, 23); }),
              AllOf(HasSubstr("resource_exhausted"), HasSubstr("24 bytes")));
  const auto two = arrow::RecordBatch::Make(
      arrow::schema({out.batch->schema()->field(0), out.batch->schema()->field(0)}), 2,
      {out.batch->column(0), out.batch->column(0)});
  EXPECT_THAT(error_of([&] { (void)message_from_arrow(two.get(), "", 0, 100); }),
              HasSubstr("2 columns"));
  arrow::StringBuilder words;
  ASSERT_TRUE(words.Append("hello").ok());
  const auto text = arrow::RecordBatch::Make(arrow::schema({arrow::field("tensor", arrow::utf8())}),
                                             1, {words.Finish().ValueOrDie()});
  EXPECT_THAT(error_of([&] { (void)message_from_arrow(text.get(), "", 0, 100); }),
              HasSubstr("string"));
}

// A client as anyone could write it.
struct Guest {
  Guest(const Transport& end, const std::string& boundary, const std::string& token = "")
      : client(flight::FlightClient::Connect(
                   flight::Location::ForGrpcTcp("127.0.0.1", end.binding().port).ValueOrDie())
                   .ValueOrDie()) {
    flight::FlightCallOptions options;
    if (!token.empty()) options.headers = {{"harmonics-token", token}};
    call = client->DoExchange(options, flight::FlightDescriptor::Path({boundary})).ValueOrDie();
  }
  arrow::Status send(const Message& message) {
    const ArrowMessage out = arrow_message(message);
    if (!begun) ARROW_RETURN_NOT_OK(call.writer->Begin(out.batch->schema()));
    begun = true;
    return call.writer->WriteWithMetadata(*out.batch, arrow::Buffer::FromString(out.metadata));
  }
  Message receive() {
    const flight::FlightStreamChunk chunk = call.reader->Next().ValueOrDie();
    return message_from_arrow(chunk.data.get(), chunk.app_metadata->ToString(), 0, 1 << 20);
  }

  // What the boundary says before it ends the exchange, or with its end.
  std::string last_words() {
    const arrow::Result<flight::FlightStreamChunk> chunk = call.reader->Next();
    if (!chunk.ok()) return chunk.status().ToString();
    return chunk->app_metadata ? chunk->app_metadata->ToString() : "";
  }

  std::unique_ptr<flight::FlightClient> client;
  flight::FlightClient::DoExchangeResult call;
  bool begun = false;
};

TEST(FlightGuests, ReadAndWriteABoundary) {
  const TransportPtr end = listening_end(boundary("hidden@1"));
  Guest guest(*end, "hidden@1");
  ASSERT_TRUE(guest.send(ramp({2, 3}, DType::kFloat32)).ok());
  EXPECT_TRUE(same_message(end->receive(patient()).value(), ramp({2, 3}, DType::kFloat32)));
  end->send(ramp({4, 2, 2}, DType::kInt32), patient());
  EXPECT_TRUE(same_message(guest.receive(), ramp({4, 2, 2}, DType::kInt32)));
  ASSERT_TRUE(guest.call.writer->DoneWriting().ok());
  EXPECT_FALSE(end->receive(patient()).has_value()) << "the guest has closed";
  end->close(patient());
  EXPECT_TRUE(guest.call.writer->Close().ok());
}

TEST(FlightGuests, AreToldOfTheEndAndLeave) {
  const TransportPtr end = listening_end(boundary("x"));
  Guest guest(*end, "x");
  ASSERT_TRUE(guest.send(ramp({2}, DType::kFloat32)).ok());
  EXPECT_TRUE(end->receive(patient()).has_value());
  end->close(patient());
  EXPECT_EQ(guest.call.reader->Next().ValueOrDie().app_metadata->ToString(), "kind=end");
  ASSERT_TRUE(guest.call.writer->DoneWriting().ok());
}

TEST(FlightGuests, OneThatJustGoesAbandonsTheBoundary) {
  const TransportPtr end = listening_end(boundary("x"));
  {
    Guest guest(*end, "x");
    ASSERT_TRUE(guest.send(ramp({2}, DType::kFloat32)).ok());
    EXPECT_TRUE(end->receive(patient()).has_value());
    guest.call.reader->Cancel();
  }
  EXPECT_THAT(receive_error(*end), HasSubstr("aborted"));
}

TEST(FlightGuests, NeedTheToken) {
  const LogCapture capture;
  TransportOptions options;
  options.token = "secret 81b2c4f97d0e";
  const TransportPtr end = listening_end(boundary("x"), options);
  Guest stranger(*end, "x", "guess");
  ASSERT_TRUE(stranger.send(ramp({2}, DType::kFloat32)).ok());
  EXPECT_THAT(stranger.last_words(), HasSubstr("token"));
  Guest friendly(*end, "x", "secret 81b2c4f97d0e");
  ASSERT_TRUE(friendly.send(ramp({2}, DType::kFloat32)).ok());
  EXPECT_TRUE(end->receive(patient()).has_value());
}

TEST(FlightGuests, ATensorAboveTheLimitIsRefused) {
  RemoteBinding binding = boundary("x");
  binding.max_message_size = 16;
  const TransportPtr end = listening_end(binding);
  Guest guest(*end, "x");
  ASSERT_TRUE(guest.send(ramp({5}, DType::kFloat32)).ok());
  ASSERT_TRUE(guest.call.writer->DoneWriting().ok());
  EXPECT_THAT(guest.call.writer->Close().ToString(),
              AllOf(HasSubstr("20 bytes"), HasSubstr("'x'")));
}

}  // namespace
}  // namespace harmonics::inline in_transport
