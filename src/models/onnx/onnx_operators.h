// The operators that are imported, a table per theme (private to models). To add one: write its
// handler in the file of its theme and add a line to that file's table; docs/formats/onnx.md lists
// it, and tests/interop runs every node case of the onnx package for it.
#pragma once

#include <span>
#include <string_view>

#include "onnx_importer.h"

namespace harmonics::inline in_models {

struct OnnxOperator {
  std::string_view name;
  OnnxHandler handler;
};

/// Convolutions, pools, norms over channels.
[[nodiscard]] std::span<const OnnxOperator> onnx_window_operators();
/// What makes an image larger or smaller.
[[nodiscard]] std::span<const OnnxOperator> onnx_resizing_operators();
/// Arithmetic, activations, comparisons.
[[nodiscard]] std::span<const OnnxOperator> onnx_element_operators();
/// What only moves numbers.
[[nodiscard]] std::span<const OnnxOperator> onnx_shape_operators();
/// Products, reductions, norms over the last axes.
[[nodiscard]] std::span<const OnnxOperator> onnx_matrix_operators();
/// What several layers make together.
[[nodiscard]] std::span<const OnnxOperator> onnx_composed_operators();
/// Layers that remember.
[[nodiscard]] std::span<const OnnxOperator> onnx_recurrent_operators();

}  // namespace harmonics::inline in_models
