// ONNX files for tests, written field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_models {

/// A message of protocol buffers.
class WireWriter {
 public:
  WireWriter& number(std::uint32_t field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  WireWriter& bytes(std::uint32_t field, std::string_view value) {
    varint((field << 3) | 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>((value & 0x7f) | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

inline std::string onnx_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                               const std::vector<float>& values) {
  WireWriter tensor;
  for (const std::uint64_t axis : shape) tensor.number(1, axis);
  const std::string_view raw(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(float));
  return tensor.number(2, 1).bytes(8, name).bytes(9, raw).text();
}

inline std::string onnx_integers(std::string_view name, const std::vector<std::int64_t>& values) {
  WireWriter tensor;
  const std::string_view raw(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(std::int64_t));
  return tensor.number(1, values.size()).number(2, 7).bytes(8, name).bytes(9, raw).text();
}

/// An attribute that is a list of integers.
inline std::string onnx_list(std::string_view name, const std::vector<std::uint64_t>& values) {
  WireWriter attribute;
  attribute.bytes(1, name);
  for (const std::uint64_t value : values) attribute.number(8, value);
  return attribute.number(20, 7).text();
}

inline std::string onnx_integer(std::string_view name, std::uint64_t value) {
  return WireWriter().bytes(1, name).number(3, value).number(20, 2).text();
}

inline std::string onnx_node(std::string_view op, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs,
                             const std::vector<std::string>& attributes = {}) {
  WireWriter node;
  for (const std::string& one : inputs) node.bytes(1, one);
  for (const std::string& one : outputs) node.bytes(2, one);
  node.bytes(4, op);
  for (const std::string& one : attributes) node.bytes(5, one);
  return node.text();
}

/// A float tensor that enters or leaves; 0 stands for an open axis.
inline std::string onnx_value(std::string_view name, const std::vector<std::uint64_t>& axes) {
  WireWriter shape;
  for (const std::uint64_t axis : axes) {
    shape.bytes(
        1, axis == 0 ? WireWriter().bytes(2, "N").text() : WireWriter().number(1, axis).text());
  }
  const std::string type = WireWriter().number(1, 1).bytes(2, shape.text()).text();
  return WireWriter().bytes(1, name).bytes(2, WireWriter().bytes(1, type).text()).text();
}

struct OnnxParts {
  std::vector<std::string> nodes = {};
  std::vector<std::string> initializers = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
};

inline std::string onnx_graph(const OnnxParts& parts) {
  WireWriter graph;
  for (const std::string& one : parts.nodes) graph.bytes(1, one);
  graph.bytes(2, "test");
  for (const std::string& one : parts.initializers) graph.bytes(5, one);
  for (const std::string& one : parts.inputs) graph.bytes(11, one);
  for (const std::string& one : parts.outputs) graph.bytes(12, one);
  return graph.text();
}

inline std::string onnx_file(const std::string& graph, std::uint64_t opset = 13) {
  const std::string version = WireWriter().bytes(1, "").number(2, opset).text();
  return WireWriter().number(1, 8).bytes(7, graph).bytes(8, version).text();
}

inline ByteSpan onnx_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace harmonics::inline in_models
