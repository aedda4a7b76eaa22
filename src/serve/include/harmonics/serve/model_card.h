// What a model that is served takes and gives, and one request to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/graph/axes.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_serve {

using TensorsByName = std::map<std::string, Tensor, std::less<>>;

/// The only version of a model there is.
inline constexpr const char* kModelVersion = "1";

/// A tensor that enters or leaves a model.
struct TensorCard {
  std::string name;
  /// One row of it; extents that follow an axis at their ceiling.
  TensorSpec sample;
  /// Extents that a request may choose, within the ceiling of their axis.
  NamedExtents extents = {};
  /// Numbers that are looked up lie below it; 0: they are not looked up.
  std::int64_t id_limit = 0;
};

struct ModelCard {
  std::string name;
  std::vector<TensorCard> inputs;
  std::vector<TensorCard> outputs;
  /// The ceilings of the axes that the extents follow.
  std::vector<AxisNode> axes = {};
  /// The most rows of one request, and of one batch.
  std::int64_t batch_rows = 1;
};

/// The bytes of one row of all inputs, at the ceiling of every axis.
[[nodiscard]] std::int64_t row_bytes(const ModelCard& card);

struct InferenceRequest {
  /// Comes back with the answer; may be empty.
  std::string id = {};
  /// With their rows as the first axis.
  TensorsByName inputs = {};
  /// Empty: all.
  std::vector<std::string> outputs = {};
  /// How long whoever asks is willing to wait; nothing: as long as the service lets it.
  std::optional<Nanoseconds> timeout = std::nullopt;
};

/// The longest id of a request.
inline constexpr std::size_t kMaxRequestId = 256;

/// How many rows a request has that fits the model. One that does not is an Error
/// (kInvalidArgument) that says which tensor is wrong and what would be right.
[[nodiscard]] std::int64_t check_request(const ModelCard& card, const InferenceRequest& request);

}  // namespace harmonics::inline in_serve
