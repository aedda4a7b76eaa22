// Any bytes are a proof that does not hold or an Error; the decoders are bounded.
#include <cstdint>
#include <cstdlib>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/zk/network.h>
#include <harmonics/zk/zk.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  // The first byte says how much is proof, in 256ths; the rest is committed weights or a
  // committed network.
  if (size == 0) return 0;
  const ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  const std::size_t split = bytes.size() * data[0] / 255;
  try {
    (void)verify_stage_proof(bytes.first(split), bytes.subspan(split), {});
    std::abort();  // nobody proves anything for an empty context
  } catch (const Error&) {
  }
  try {
    (void)verify_network_proof(bytes.first(split), bytes.subspan(split), {});
    std::abort();
  } catch (const Error&) {
  }
  return 0;
}
