// ONNX files for tests, written field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>

#include "proto_writer.h"

namespace harmonics::inline in_models {

inline std::string onnx_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                               const std::vector<float>& values) {
  ProtoWriter tensor;
  for (const std::uint64_t axis : shape) tensor.number(1, axis);
  const std::string_view raw(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(float));
  return tensor.number(2, 1).bytes(8, name).bytes(9, raw).text();
}

inline std::string onnx_integers(std::string_view name, const std::vector<std::int64_t>& values) {
  ProtoWriter tensor;
  const std::string_view raw(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(std::int64_t));
  return tensor.number(1, values.size()).number(2, 7).bytes(8, name).bytes(9, raw).text();
}

/// An attribute that is a list of integers.
inline std::string onnx_list(std::string_view name, const std::vector<std::uint64_t>& values) {
  ProtoWriter attribute;
  attribute.bytes(1, name);
  for (const std::uint64_t value : values) attribute.number(8, value);
  return attribute.number(20, 7).text();
}

inline std::string onnx_integer(std::string_view name, std::uint64_t value) {
  return ProtoWriter().bytes(1, name).number(3, value).number(20, 2).text();
}

inline std::string onnx_node(std::string_view op, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs,
                             const std::vector<std::string>& attributes = {}) {
  ProtoWriter node;
  for (const std::string& one : inputs) node.bytes(1, one);
  for (const std::string& one : outputs) node.bytes(2, one);
  node.bytes(4, op);
  for (const std::string& one : attributes) node.bytes(5, one);
  return node.text();
}

/// A float tensor that enters or leaves; 0 stands for an open axis.
inline std::string onnx_value(std::string_view name, const std::vector<std::uint64_t>& axes) {
  ProtoWriter shape;
  for (const std::uint64_t axis : axes) {
    shape.bytes(
        1, axis == 0 ? ProtoWriter().bytes(2, "N").text() : ProtoWriter().number(1, axis).text());
  }
  const std::string type = ProtoWriter().number(1, 1).bytes(2, shape.text()).text();
  return ProtoWriter().bytes(1, name).bytes(2, ProtoWriter().bytes(1, type).text()).text();
}

struct OnnxParts {
  std::vector<std::string> nodes = {};
  std::vector<std::string> initializers = {};
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
};

inline std::string onnx_graph(const OnnxParts& parts) {
  ProtoWriter graph;
  for (const std::string& one : parts.nodes) graph.bytes(1, one);
  graph.bytes(2, "test");
  for (const std::string& one : parts.initializers) graph.bytes(5, one);
  for (const std::string& one : parts.inputs) graph.bytes(11, one);
  for (const std::string& one : parts.outputs) graph.bytes(12, one);
  return graph.text();
}

inline std::string onnx_file(const std::string& graph, std::uint64_t opset = 13) {
  const std::string version = ProtoWriter().bytes(1, "").number(2, opset).text();
  return ProtoWriter().number(1, 8).bytes(7, graph).bytes(8, version).text();
}

inline ByteSpan onnx_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace harmonics::inline in_models
