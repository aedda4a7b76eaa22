// Graphs that are made from others: with a loss, with other names, with other weights.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model.h"

namespace harmonics::python {

/// The graph with one tap more. `prediction` is a layer or a consumer, the only consumer when it is
/// empty. A target that is no producer becomes one: of class ids for cross_entropy and next_token,
/// else of the prediction's shape.
[[nodiscard]] Model with_loss(const Model& model, const std::string& loss,
                              const std::string& target, const std::string& prediction,
                              double weight);

/// What becomes of a layer.
struct LayerEdit {
  /// Empty: its own.
  std::string name;
  /// Over those that it has.
  Attributes attributes = {};
};

/// The graph under this name, with other names and attributes of layers, by their present names;
/// parameters follow, and those that a layer has no more are dropped. A name that is no layer is an
/// Error.
[[nodiscard]] Model edited(const Model& model, const std::string& name,
                           const std::map<std::string, LayerEdit>& edits);

/// The graph with these start values in place of those that it had. A name that is no parameter, or
/// another shape, is an Error: at once, or when the shapes of the graph are known.
[[nodiscard]] Model with_tensors(const Model& model, std::map<std::string, Tensor> tensors);

}  // namespace harmonics::python
