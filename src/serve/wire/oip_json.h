// The bodies of the Open Inference Protocol over HTTP: JSON, with tensors in it or as bytes behind
// it (private to serve).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/serve/model_card.h>

namespace harmonics::inline in_serve {

/// A request, and in which form its outputs are wished.
struct InferCall {
  InferenceRequest request;
  /// Bytes behind the JSON, unless the output says otherwise.
  bool binary_outputs = false;
  std::map<std::string, bool, std::less<>> binary_by_output = {};
};

/// Reads the body of a request. Its first `json_bytes` are JSON, the rest are the bytes of those
/// inputs that have a binary_data_size, in their order; nothing: all of it is JSON. What is broken,
/// or does not say a tensor in full, is an Error (kInvalidArgument). Allocates no more than the
/// body brings.
[[nodiscard]] InferCall decode_infer_call(std::string_view body,
                                          std::optional<std::size_t> json_bytes);

struct InferBody {
  std::string body;
  /// Set where bytes follow the JSON.
  std::optional<std::size_t> json_bytes = std::nullopt;
};

/// The answer to a call. Numbers are written so that reading them gives the same bits; what is no
/// number (not finite) is null, as JSON has no word for it.
[[nodiscard]] InferBody encode_infer_answer(const ModelCard& card, const InferCall& call,
                                            const TensorsByName& outputs);

[[nodiscard]] std::string server_metadata_json();
[[nodiscard]] std::string model_metadata_json(const ModelCard& card);
[[nodiscard]] std::string error_json(std::string_view what);

}  // namespace harmonics::inline in_serve
