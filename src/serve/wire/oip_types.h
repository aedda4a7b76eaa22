// Names of the Open Inference Protocol that HTTP and gRPC share (private to serve).
#pragma once

#include <optional>
#include <string_view>

#include <harmonics/serve/model_card.h>

namespace harmonics::inline in_serve {

inline constexpr const char* kServerName = "harmonics";
inline constexpr const char* kPlatform = "harmonics";
inline constexpr const char* kBinaryExtension = "binary_tensor_data";

/// Of this build.
[[nodiscard]] const char* server_version();

/// "FP32", "INT64", …
[[nodiscard]] std::string_view datatype_name(DType dtype);
/// The dtype of that name; nothing where this house has none.
[[nodiscard]] std::optional<DType> datatype_from_name(std::string_view name);
/// The same; an unknown one is an Error (kInvalidArgument) that names the input.
[[nodiscard]] DType request_datatype(std::string_view name, std::string_view input);

/// With its rows, and -1 for whatever a request may choose.
[[nodiscard]] Shape advertised_shape(const TensorCard& card);

/// An Error (kInvalidArgument) for a shape that no tensor of a request has.
void check_request_shape(const Shape& shape, std::string_view input);

/// A tensor of that shape from its bytes; a wrong number of them is an Error (kInvalidArgument).
[[nodiscard]] Tensor tensor_from_bytes(std::string_view input, TensorSpec spec, ByteSpan bytes);

/// An Error (kNotFound) unless the model and the version, which may be empty, are this one's.
void check_model(const ModelCard& card, std::string_view name, std::string_view version);

}  // namespace harmonics::inline in_serve
