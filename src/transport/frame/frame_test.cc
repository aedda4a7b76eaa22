#include "frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include <harmonics/base/random.h>

#include <error_testing.h>

#include "frame_testing.h"

namespace harmonics::inline in_transport {
namespace {

using ::testing::HasSubstr;

constexpr DecoderLimits kLimits{std::uint64_t{16} << 20};

Message sample(Shape shape, DType dtype, std::size_t attachment = 0) {
  Message message;
  message.kind = MessageKind::kGradient;
  message.step = 0x123456789abcdefULL;
  message.micro_batch = 77;
  message.tensor = Tensor::empty(std::move(shape), dtype);
  Random random(1, "frame");
  for (std::byte& byte : message.tensor.mutable_bytes()) {
    byte = static_cast<std::byte>(random.below(5));
  }
  message.attachment.assign(attachment, std::byte{0xab});
  return message;
}

Message decoded(const Bytes& bytes, std::size_t piece = SIZE_MAX) {
  FrameDecoder decoder(kLimits);
  auto frames = decode_all(decoder, bytes, piece);
  EXPECT_EQ(frames.size(), 1u);
  EXPECT_FALSE(decoder.midway());
  return frames.empty() ? Message{} : frames[0].message;
}

std::string decoding_error(const Bytes& bytes, DecoderLimits limits = kLimits) {
  FrameDecoder decoder(limits);
  return error_of([&] { (void)decode_all(decoder, bytes); });
}

TEST(Frame, HeaderRoundTrip) {
  FrameHeader header;
  header.type = FrameType::kMessage;
  header.codec = Codec::kZstdPlanes;
  header.flags = kFlagAsk;
  header.boundary = 0xdeadbeef;
  header.meta_bytes = 99;
  header.meta_crc = 0x01020304;
  header.sequence = 1ULL << 60;
  header.step = 12;
  header.micro_batch = 3;
  header.payload_bytes = 1ULL << 40;
  header.progress = {1000, 990};
  EXPECT_EQ(decode_header(encode_header(header)), header);
}

TEST(Frame, EveryDTypeShapeAndCodecSurvives) {
  const std::vector<Shape> shapes = {{}, {0}, {1}, {3, 0, 2}, {7, 5}, {2, 3, 4, 5}, {70'001}};
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (const Shape& shape : shapes) {
      for (const Codec codec : {Codec::kNone, Codec::kZstdPlanes}) {
        const Message message = sample(shape, static_cast<DType>(dtype), 3);
        EXPECT_TRUE(same_message(decoded(frame_bytes(message, codec)), message))
            << spec_text(message.tensor.spec());
      }
    }
  }
}

TEST(Frame, UndefinedTensorAndEveryKind) {
  for (const auto kind : {MessageKind::kActivation, MessageKind::kGradient, MessageKind::kEpochEnd,
                          MessageKind::kControl}) {
    Message message;
    message.kind = kind;
    EXPECT_TRUE(same_message(decoded(frame_bytes(message)), message)) << message_kind_name(kind);
  }
}

TEST(Frame, TheCeilingsCanBeReached) {
  Message message = sample(Shape(kMaxMessageAxes, 1), DType::kFloat32, kMaxAttachmentBytes);
  EXPECT_TRUE(same_message(decoded(frame_bytes(message)), message));
  EXPECT_LE(encode_meta(message).size(), kMaxMetaBytes);
}

TEST(Frame, ArrivesInAnyPieces) {
  const Message message = sample({1000}, DType::kFloat32, 10);
  const Bytes bytes = frame_bytes(message);
  for (const std::size_t piece : {1, 2, 63, 64, 65, 1000}) {
    EXPECT_TRUE(same_message(decoded(bytes, piece), message)) << piece;
  }
}

TEST(Frame, SeveralFramesInARow) {
  Bytes bytes;
  for (int i = 0; i < 3; ++i) {
    const Bytes one = frame_bytes(sample({i + 1}, DType::kInt64));
    bytes.insert(bytes.end(), one.begin(), one.end());
    const Bytes two = control_bytes(FrameType::kProgress, {});
    bytes.insert(bytes.end(), two.begin(), two.end());
  }
  FrameDecoder decoder(kLimits);
  const auto frames = decode_all(decoder, bytes, 50);
  ASSERT_EQ(frames.size(), 6u);
  EXPECT_EQ(frames[2].message.tensor.shape(), (Shape{2}));
  EXPECT_EQ(frames[5].header.type, FrameType::kProgress);
}

TEST(Frame, PayloadIsAlignedOnTheWireAndInMemory) {
  const Message message = sample({500}, DType::kFloat64, 17);
  const OutgoingMessage out = encode_message(message, Codec::kNone);
  EXPECT_EQ((kFrameHeaderBytes + out.meta.size()) % kFrameAlignment, 0u);
  const Message back = decoded(frame_bytes(out));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(back.tensor.bytes().data()) % kBufferAlignment, 0u);
  EXPECT_EQ(out.payload.data(), message.tensor.bytes().data()) << "nothing is copied to send";
}

TEST(Frame, EveryFlippedBitIsFound) {
  const Bytes bytes = frame_bytes(sample({300'000}, DType::kUInt8, 5));
  Random random(9, "flip");
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < 200; ++i) places.push_back(i);
  for (int i = 0; i < 300; ++i) places.push_back(random.below(bytes.size()));
  const std::size_t pad_begin = kFrameHeaderBytes + 8 + 8 + 5;
  for (const std::size_t place : places) {
    if (place >= pad_begin && place < 128) continue;  // the zeros before the payload mean nothing
    Bytes damaged = bytes;
    damaged[place] ^= static_cast<std::byte>(1 << random.below(8));
    EXPECT_NE(decoding_error(damaged), "no error") << "byte " << place;
  }
}

TEST(Frame, StrangersAreToldApart) {
  const auto stranger = [](std::string text) {
    text.resize(kFrameHeaderBytes, 'x');
    const ByteSpan bytes = bytes_of(text);
    return decoding_error({bytes.begin(), bytes.end()});
  };
  EXPECT_THAT(stranger("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr("speaks HTTP"));
  EXPECT_THAT(stranger("HTTP/1.1 400 Bad Request"), HasSubstr("speaks HTTP"));
  EXPECT_THAT(stranger("\x16\x03\x01\x02"), HasSubstr("speaks TLS"));
  EXPECT_THAT(stranger("\x01\x02 hello"), HasSubstr("'.. helloxxxxxxxx'"));
  HeaderBytes header = encode_header({});
  header[4] = std::byte{9};
  EXPECT_THAT(decoding_error({header.begin(), header.end()}), HasSubstr("unimplemented"));
}

// A header that lies about its lengths is refused before memory is taken for them.
TEST(Frame, HugeLengthsAreRefusedBeforeAllocating) {
  const auto refused = [](const Message& message, auto change) {
    OutgoingMessage out = encode_message(message, Codec::kNone);
    change(out.header);
    Bytes bytes = frame_bytes(out);
    return decoding_error(bytes);
  };
  const Message small = sample({10}, DType::kFloat32);
  EXPECT_THAT(refused(small, [](FrameHeader& h) { h.payload_bytes = 1ULL << 62; }),
              HasSubstr("announces 4611686018427387904 payload bytes for a tensor of 40"));
  EXPECT_THAT(refused(small, [](FrameHeader& h) { h.meta_bytes = 0xffffffff; }),
              HasSubstr("bytes of meta, at most"));
  EXPECT_THAT(refused(small,
                      [](FrameHeader& h) {
                        h.codec = Codec::kZstdPlanes;
                        h.payload_bytes = 1ULL << 40;
                      }),
              HasSubstr("payload bytes for a tensor"));
  EXPECT_THAT(refused(small, [](FrameHeader& h) { h.type = FrameType::kEnd; }),
              HasSubstr("announces a payload"));
}

TEST(Frame, ATensorAboveTheLimitIsRefused) {
  const DecoderLimits limits{400};
  EXPECT_EQ(decoding_error(frame_bytes(sample({100}, DType::kFloat32)), limits), "no error");
  EXPECT_THAT(decoding_error(frame_bytes(sample({101}, DType::kFloat32)), limits),
              HasSubstr("resource_exhausted: message 0 announces a tensor of 404 bytes"));
  EXPECT_THAT(
      decoding_error(frame_bytes(sample({1000}, DType::kFloat32), Codec::kZstdPlanes), limits),
      HasSubstr("a tensor of 4000 bytes"));
}

TEST(Frame, MessagesBeforeTheGreetingAreRefused) {
  DecoderLimits greeting{0, 64, false};
  EXPECT_THAT(decoding_error(frame_bytes(Message{}), greeting), HasSubstr("before the greeting"));
  EXPECT_THAT(decoding_error(control_bytes(FrameType::kHello, Bytes(65)), greeting),
              HasSubstr("65 bytes of meta, at most 64"));
  EXPECT_EQ(decoding_error(control_bytes(FrameType::kHello, Bytes(64)), greeting), "no error");
}

TEST(Frame, WrongMetaIsRefused) {
  const Bytes good = encode_meta(sample({2, 3}, DType::kFloat32, 4));
  const auto changed = [&](std::size_t at, int value) {
    Bytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return error_of([&] { (void)decode_meta(bytes); });
  };
  EXPECT_THAT(changed(0, 0), HasSubstr("unknown kind"));
  EXPECT_THAT(changed(0, 5), HasSubstr("unknown kind"));
  EXPECT_THAT(changed(1, 2), HasSubstr("tensor flag"));
  EXPECT_THAT(changed(1, 0), HasSubstr("axes"));
  EXPECT_THAT(changed(2, kDTypeCount), HasSubstr("unknown dtype"));
  EXPECT_THAT(changed(3, 65), HasSubstr("axes"));
  EXPECT_THAT(changed(6, 0xff), HasSubstr("attachment"));
  EXPECT_THAT(changed(15, 0x80), HasSubstr("data_loss"));  // a negative axis
  EXPECT_THAT(changed(14, 0x7f), HasSubstr("data_loss"));  // a product that is too large
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_THAT(error_of([&] { (void)decode_meta(longer); }), HasSubstr("follow the attachment"));
}

}  // namespace
}  // namespace harmonics::inline in_transport
