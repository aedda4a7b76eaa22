// Any bytes are frames or an Error; a message that was read is written and read again unchanged;
// no decoder of the handshake falls over its body.
#include <cstdint>
#include <cstdlib>
#include <span>

#include <harmonics/base/error.h>

#include "frame_testing.h"
#include "session/handshake.h"

namespace {

using namespace harmonics;

constexpr DecoderLimits kLimits{std::uint64_t{1} << 20};

void check_message(const ReceivedFrame& frame) {
  FrameDecoder again(kLimits);
  for (const Codec codec : {Codec::kNone, Codec::kZstdPlanes}) {
    const auto frames = decode_all(again, frame_bytes(frame.message, codec));
    if (frames.size() != 1 || !same_message(frames[0].message, frame.message)) std::abort();
  }
}

void check_greeting(const Bytes& body) {
  try {
    const Greeting greeting = decode_greeting(body);
    if (decode_greeting(encode_greeting(greeting)) != greeting) std::abort();
  } catch (const Error&) {
  }
}

template <typename Decode>
void check_body(const Bytes& body, Decode decode) {
  try {
    (void)decode(body);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FrameDecoder decoder(kLimits);
  try {
    for (const ReceivedFrame& frame : decode_all(decoder, std::as_bytes(std::span(data, size)))) {
      if (frame.header.type == FrameType::kMessage) check_message(frame);
      check_greeting(frame.meta);
      check_body(frame.meta, decode_challenge);
      check_body(frame.meta, decode_proof);
      check_body(frame.meta, decode_refused_greeting);
    }
  } catch (const Error&) {
  }
  return 0;
}
