// Any bytes are a record that parts of a run say to each other, or an Error; one that was read is
// written and read again unchanged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>

#include "parameters/parameter_wire.h"
#include "secure/proof_parcel.h"
#include "wire.h"

namespace {

using namespace harmonics;

template <typename Input, typename Decode>
void check(Input input, Decode decode) {
  try {
    const auto written = encode(decode(input));
    if (encode(decode(written)) != written) std::abort();
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ByteSpan bytes = bytes_of(text);
  check(bytes, decode_batch_head);
  check(bytes, decode_parameter_layout);
  check(bytes, decode_gradient_weight);
  check(bytes, decode_proof_parcel);
  check(text, decode_part_record);
  check(text, decode_fit_terms);
  check(text, decode_tap_report);
  check(text, decode_stage_file);
  check(text, decode_custody_claim);
  try {
    (void)decode_ids(text);
  } catch (const Error&) {
  }
  return 0;
}
