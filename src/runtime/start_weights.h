// Start values of parameters (private to runtime).
#pragma once

#include <cstdint>
#include <string_view>

#include <harmonics/graph/layer_type.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

/// The start values of one parameter: a pure function of seed and full name, so that every part of
/// a graph draws the same weights as the whole. `dtype` is float32 or float64.
[[nodiscard]] Tensor start_weights(const ParameterSpec& spec, DType dtype, std::uint64_t seed,
                                   std::string_view full_name);

}  // namespace harmonics::inline in_runtime
