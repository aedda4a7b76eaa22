// The importer as programs see it that run cases of other packages (tests/interop).
#pragma once

#include <string>
#include <vector>

#include <harmonics/base/bytes.h>

#include "onnx_importer.h"
#include "wire.h"

namespace harmonics::inline in_models {

/// The operators of a model, also of one that is not read further; those of other domains than
/// ONNX's as "domain.op".
inline std::vector<std::string> onnx_ops_of(const std::string& text) {
  const auto each = [](ByteSpan bytes, std::uint32_t number, auto&& use) {
    WireReader reader(bytes, "case");
    for (WireField field; reader.next(field);)
      if (field.number == number) use(field);
  };
  std::vector<std::string> ops;
  each(bytes_of(text), 7, [&](const WireField& graph) {
    each(graph.bytes, 1, [&](const WireField& node) {
      std::string op;
      each(node.bytes, 7, [&](const WireField& domain) {
        if (!domain.text().empty()) op = std::string(domain.text()) + ".";
      });
      each(node.bytes, 4, [&](const WireField& name) { op += name.text(); });
      ops.push_back(op);
    });
  });
  return ops;
}

}  // namespace harmonics::inline in_models
