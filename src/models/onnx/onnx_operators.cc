#include "onnx_operators.h"

#include <algorithm>

namespace harmonics::inline in_models {
namespace {

const std::map<std::string_view, OnnxHandler>& handlers() {
  static const auto kHandlers = [] {
    std::map<std::string_view, OnnxHandler> all;
    for (const auto& table :
         {onnx_window_operators(), onnx_resizing_operators(), onnx_element_operators(),
          onnx_shape_operators(), onnx_matrix_operators(), onnx_composed_operators(),
          onnx_recurrent_operators()}) {
      for (const OnnxOperator& one : table) all.emplace(one.name, one.handler);
    }
    return all;
  }();
  return kHandlers;
}

}  // namespace

OnnxHandler find_onnx_handler(std::string_view op) {
  const auto found = handlers().find(op);
  return found == handlers().end() ? nullptr : found->second;
}

std::vector<std::string> onnx_operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, handler] : handlers()) names.emplace_back(name);
  return names;
}

}  // namespace harmonics::inline in_models
