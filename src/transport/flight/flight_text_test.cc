#include "flight_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/random.h>

#include <error_testing.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_transport {
namespace {

using ::testing::HasSubstr;

std::string reading_error(const std::string& text) {
  Message message;
  return error_of([&] { read_message_text(text, message); });
}

TEST(FlightText, SaysAllOfAMessageButItsTensor) {
  Message message;
  message.kind = MessageKind::kEpochEnd;
  message.step = 18446744073709551615U;
  message.micro_batch = 3;
  message.attachment = {std::byte{0x00}, std::byte{0xab}};
  EXPECT_EQ(message_text(message),
            "kind=epoch_end step=18446744073709551615 micro_batch=3 attachment=00ab");
  Message read;
  read_message_text(message_text(message), read);
  EXPECT_EQ(message_text(read), message_text(message));
}

TEST(FlightText, BytesOfAControlMessageAreText) {
  Message message;
  message.kind = MessageKind::kControl;
  message.tensor = Tensor::empty({2}, DType::kUInt8);
  message.tensor.mutable_values<std::uint8_t>()[0] = 0x0f;
  message.tensor.mutable_values<std::uint8_t>()[1] = 0xa0;
  EXPECT_EQ(message_text(message), "kind=control step=0 micro_batch=0 bytes=0fa0");
  Message read;
  read_message_text(message_text(message), read);
  EXPECT_EQ(message_text(read), message_text(message));
  message.tensor = Tensor::empty({2, 1}, DType::kUInt8);
  EXPECT_EQ(message_text(message), "kind=control step=0 micro_batch=0") << "two axes are no text";
  message.tensor = Tensor::empty({kMaxTextTensorBytes}, DType::kUInt8);
  read_message_text(message_text(message), read);
  EXPECT_EQ(read.tensor.bytes().size(), kMaxTextTensorBytes);
  message.tensor = Tensor::empty({kMaxTextTensorBytes + 1}, DType::kUInt8);
  EXPECT_THAT(error_of([&] { (void)message_text(message); }), HasSubstr("resource_exhausted"));
  EXPECT_THAT(reading_error("kind=control bytes=" + std::string(2 * kMaxTextTensorBytes + 2, '0')),
              HasSubstr("invalid_argument"));
}

TEST(FlightText, WhatIsNotNamedStays) {
  Message message;
  message.step = 9;
  read_message_text("kind=gradient", message);
  EXPECT_EQ(message_text(message), "kind=gradient step=9 micro_batch=0");
  read_message_text("", message);
  EXPECT_EQ(message.step, 9u);
}

TEST(FlightText, AnythingElseIsAnError) {
  for (const char* text : {"kind=", "kind=end", "kind", "step=-1", "step=18446744073709551616",
                           "step= 1", "micro_batch=4294967296", "attachment=0", "attachment=0g",
                           "attachment=AB", "bytes=00", "kind=gradient bytes=00",
                           "bytes=0 kind=control", "colour=blue", "=", "step=1  kind=control"}) {
    EXPECT_THAT(reading_error(text), HasSubstr("invalid_argument")) << text;
  }
  EXPECT_EQ(reading_error("attachment=" + std::string(2 * kMaxAttachmentBytes, '0')), "no error");
  EXPECT_THAT(reading_error("attachment=" + std::string(2 * kMaxAttachmentBytes + 2, '0')),
              HasSubstr("invalid_argument"));
}

TEST(FlightText, RandomTextDoesNoHarm) {
  constexpr std::string_view kParts[] = {
      "kind=", "step=", "micro_batch=", "attachment=", "bytes=", " ", "gradient", "control",
      "=",     "0",     "17",           "ff",          "\xff",   "-"};
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed, "flight text");
    std::string text;
    for (std::uint64_t i = random.below(12); i > 0; --i) {
      text += kParts[random.below(std::size(kParts))];
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_transport
