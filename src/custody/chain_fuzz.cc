// Any bytes are a chain or a CustodyError; a chain that was read is written the same again; the
// verifier and the decoders of records and attachments never fall over.
#include <cstdint>
#include <cstdlib>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/custody/custody_log.h>
#include <harmonics/custody/verify.h>

namespace {

using namespace harmonics;

template <typename Decode>
void check_record(ByteSpan bytes, Decode decode) {
  try {
    const Bytes again = encode(decode(bytes));
    if (!std::ranges::equal(again, bytes)) std::abort();
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  check_record(bytes, decode_link);
  check_record(bytes, decode_receipt);
  check_record(bytes, decode_weight_mark);
  check_record(bytes, decode_head);
  check_record(bytes, decode_opening);
  try {
    const Chain chain = decode_chain(bytes);
    const Bytes again = encode_chain(chain);
    if (!std::ranges::equal(again, bytes)) std::abort();
    (void)verify_chain(std::span(&chain, 1), {});
  } catch (const Error&) {
  }
  return 0;
}
