// What a parameter server and its workers say to each other (private to schedule).
//
// Up the gradient stream: a greeting (control), then for each step one gradient message per
// parameter in name order, marked with the version that it was computed from. Down the parameter
// stream: the layout (control), then for each version one message per parameter in name order; or a
// refusal (control with a text) and nothing more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/schedule/parameter_server.h>

namespace harmonics::inline in_schedule {

/// What a worker must know of the server.
struct ParameterLayout {
  ParameterMode mode = ParameterMode::Synchronous;
  std::uint32_t workers = 1;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  /// In name order.
  std::vector<std::pair<std::string, TensorSpec>> tensors = {};
  bool operator==(const ParameterLayout&) const = default;
};

/// u32 mode, workers, shard, shards, count; then name, dtype (u8), axes (u32) and sizes (i64).
[[nodiscard]] Bytes encode(const ParameterLayout& layout);
/// Anything that is no layout within the limits of parameter_server.h is an Error (kDataLoss).
[[nodiscard]] ParameterLayout decode_parameter_layout(ByteSpan bytes);

/// How much of a batch a set of gradients stands for.
struct GradientWeight {
  /// Rows that the worker computed, and rows that the loss was divided by.
  std::int64_t samples = 0;
  std::int64_t batch_samples = 0;
  bool operator==(const GradientWeight&) const = default;
};
inline constexpr std::int64_t kMaxGradientSamples = std::int64_t{1} << 40;
[[nodiscard]] Bytes encode(const GradientWeight& weight);
/// Numbers that make no sense are an Error (kInvalidArgument).
[[nodiscard]] GradientWeight decode_gradient_weight(ByteSpan bytes);

/// The first words of a worker.
inline constexpr std::string_view kWorkerGreeting = "harmonics parameter worker 1";

/// The two streams of a worker at `place`. The server listens, the worker connects.
struct ParameterStreams {
  TransportPtr gradients;
  TransportPtr parameters;
};
[[nodiscard]] ParameterStreams make_parameter_streams(RemoteBinding place, std::uint32_t worker,
                                                      const TransportOptions& options);

/// A tensor of bytes, and back: what is too long to ride along.
[[nodiscard]] Tensor bytes_tensor(ByteSpan bytes);

}  // namespace harmonics::inline in_schedule
