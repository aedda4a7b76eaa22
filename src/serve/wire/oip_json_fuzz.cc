// Any bytes are the body of a request, or an Error that says what is wrong. The first four bytes
// say where the JSON ends; one that was read says its outputs.
#include <cstdint>
#include <cstring>
#include <string_view>

#include <harmonics/base/error.h>

#include "oip_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  std::uint32_t json_bytes = 0;
  if (size < sizeof json_bytes) return 0;
  std::memcpy(&json_bytes, data, sizeof json_bytes);
  const std::string_view body(reinterpret_cast<const char*>(data) + sizeof json_bytes,
                              size - sizeof json_bytes);
  const ModelCard card{"net",
                       {{"x", {{2}, DType::kFloat32}}, {"ids", {{1}, DType::kInt64}, {}, 7}},
                       {{"y", {{2}, DType::kFloat32}}},
                       {},
                       4};
  try {
    InferCall call = decode_infer_call(
        body, json_bytes == 0 ? std::nullopt : std::optional<std::size_t>(json_bytes));
    const std::int64_t rows = check_request(card, call.request);
    const InferBody answer = encode_infer_answer(card, call, {{"y", Tensor::zeros({rows, 2})}});
    if (answer.json_bytes.value_or(0) > answer.body.size()) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
