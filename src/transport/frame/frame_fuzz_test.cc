// A fixed slice of what the fuzzer does, in every build: thousands of broken frames through its
// entry. Half of them get their checksums mended, so that damage reaches what lies behind them.
#include <gtest/gtest.h>

#include <cstring>

#include <harmonics/base/random.h>

#include "frame_testing.h"
#include "session/handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_transport {
namespace {

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const Codec codec : {Codec::kNone, Codec::kZstdPlanes}) {
    Message message;
    message.tensor = Tensor::zeros({3, 50}, DType::kFloat32);
    message.attachment.assign(9, std::byte{1});
    out.push_back(frame_bytes(message, codec));
  }
  Greeting greeting;
  greeting.run = "run";
  greeting.boundary = "hidden@1";
  greeting.instance = {1, 1};
  out.push_back(control_bytes(FrameType::kHello, encode_greeting(greeting)));
  out.push_back(control_bytes(FrameType::kRefuse,
                              encode_refused_greeting({ErrorCode::kUnavailable, true, "not now"})));
  out.push_back(control_bytes(FrameType::kChallenge, encode_challenge({})));
  out.push_back(control_bytes(FrameType::kProof, encode_proof({})));
  out.push_back(control_bytes(FrameType::kProgress, {}));
  return out;
}

// Writes the right checksums over whatever the header now announces.
void mend(Bytes& bytes) {
  if (bytes.size() < kFrameHeaderBytes) return;
  std::uint32_t meta = 0;
  std::memcpy(&meta, bytes.data() + 12, sizeof(meta));
  if (meta <= bytes.size() - kFrameHeaderBytes) {
    const std::uint32_t crc = crc32c(ByteSpan(bytes).subspan(kFrameHeaderBytes, meta));
    std::memcpy(bytes.data() + 36, &crc, sizeof(crc));
  }
  const std::uint32_t crc = crc32c(ByteSpan(bytes).first(60));
  std::memcpy(bytes.data() + 60, &crc, sizeof(crc));
}

void damage(Bytes& bytes, Random& random) {
  const std::size_t at = random.below(bytes.size() + 1);
  switch (random.below(5)) {
    case 0:
      if (at < bytes.size()) bytes[at] ^= static_cast<std::byte>(1 << random.below(8));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<std::byte>(random.below(256));
      break;
    case 2: bytes.resize(at); break;
    case 3:
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 4, std::byte{0xff});
      break;
    default:
      bytes.insert(bytes.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

TEST(FrameFuzz, BrokenFramesAreErrors) {
  const std::vector<Bytes> from = seeds();
  Random random(4, "frame fuzz");
  for (int i = 0; i < 60'000; ++i) {
    Bytes input = from[random.below(from.size())];
    for (std::uint64_t rounds = 1 + random.below(4); rounds > 0; --rounds) damage(input, random);
    if (random.below(2) == 0) mend(input);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_transport
