// From the layers of a graph to the nodes of an ONNX file (private to models; export_model.h is the
// way in).
//
// The batch is the first axis of every value, open and called N; a named axis of the graph is open
// under its name. Values and parameters keep the graph's names.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/models/weight_source.h>

#include "constant.h"
#include "onnx_model.h"

namespace harmonics::inline in_models {

/// A tensor that goes into the file: known numbers, or a parameter that is read when it is written.
struct OnnxInitializer {
  std::string name;
  TensorSpec spec;
  std::function<Tensor()> read;
  /// Lets go of what `read` mapped, once it is written.
  std::function<void()> forget = {};
};

/// A layer while it is written: its query, its inputs as values of the file, what it gives.
struct WrittenLayer {
  const LayerNode& node;
  LayerQuery query;
  std::vector<std::string> inputs;
  const LayerShape& shape;

  [[nodiscard]] const TensorSpec& input(std::size_t index = 0) const { return query.inputs[index]; }
  /// Axes of the sample of an input.
  [[nodiscard]] std::size_t rank(std::size_t index = 0) const { return input(index).shape.size(); }
  /// Throws an Error (kUnimplemented) that names the layer: "… has no spelling in ONNX: <what>".
  [[noreturn]] void refuse(const std::string& what) const;
};

class OnnxExporter;
/// Writes a layer's nodes and gives the value that they end in.
using OnnxLayerWriter = std::string (*)(OnnxExporter& out, const WrittenLayer& layer);

/// A table per theme: which layers can be written.
using OnnxLayerWriters = std::map<std::string_view, OnnxLayerWriter>;
[[nodiscard]] OnnxLayerWriters onnx_window_writers();
[[nodiscard]] OnnxLayerWriters onnx_norm_writers();
[[nodiscard]] OnnxLayerWriters onnx_element_writers();
[[nodiscard]] OnnxLayerWriters onnx_shape_writers();
[[nodiscard]] OnnxLayerWriters onnx_token_writers();
[[nodiscard]] OnnxLayerWriters onnx_recurrent_writers();

/// Walks over the layers that some consumer needs. Used once.
class OnnxExporter {
 public:
  /// Both outlive this. A layer without a spelling and a missing weight are Errors by name.
  OnnxExporter(const HarmonicGraph& graph, const WeightSource& weights);

  /// The graph's message without its initializers, which follow it.
  [[nodiscard]] std::string graph_text();
  [[nodiscard]] const std::vector<OnnxInitializer>& initializers() const { return initializers_; }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }

  // For writers.
  [[nodiscard]] const HarmonicGraph& graph() const { return graph_; }
  /// A node with one output; gives that output's name.
  std::string node(std::string_view op, std::vector<std::string> inputs,
                   Attributes attributes = {});
  /// The same with several outputs.
  std::vector<std::string> nodes(std::string_view op, std::vector<std::string> inputs,
                                 Attributes attributes, std::size_t outputs);
  /// Known numbers as a value; equal ones are kept once.
  std::string integers(const std::vector<std::int64_t>& values);
  std::string number(double value, DType dtype);
  /// Of the dtype of what is being written.
  std::string number(double value) { return number(value, dtype_); }
  std::string constant(const std::string& name, const Constant& value);
  /// A parameter of the layer, as `dtype`.
  std::string parameter(const WrittenLayer& layer, std::string_view name, DType dtype);
  [[nodiscard]] Tensor parameter_values(const WrittenLayer& layer, std::string_view name) const;
  /// The number of samples, and the extent of an axis behind it, as a value {1}.
  std::string extent(const std::string& value, std::int64_t axis);
  /// `value` with so many axes of a sample: new ones of 1 behind the batch.
  std::string aligned(const std::string& value, std::size_t rank, std::size_t wanted);
  /// The activation of a layer or consumer.
  std::string activated(const std::string& value, const std::string& activation,
                        const std::string& owner);

 private:
  struct Node {
    std::string op;
    std::vector<std::string> inputs, outputs;
    Attributes attributes;
  };

  void find_needed();
  void choose_names();
  void write_layer(std::size_t index);
  /// Gives the value of the last node, or a copy of it, this name.
  void name_value(const std::string& value, const std::string& name);
  [[nodiscard]] std::string unique(const std::string& wish);
  [[nodiscard]] std::string node_text(const Node& node, std::size_t index) const;
  [[nodiscard]] std::string value_text(const std::string& name, const std::string& tensor) const;
  [[nodiscard]] std::string stored_name(const std::string& full) const;

  const HarmonicGraph& graph_;
  const WeightSource& weights_;
  std::string prefix_;  // of the nodes of the layer that is written
  DType dtype_ = DType::kFloat32;
  std::set<std::string, std::less<>> needed_;
  std::map<std::string, std::string, std::less<>> value_names_;  // by tensor of the graph
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, std::string, std::less<>> kept_;  // known numbers by what they are
  std::vector<Node> nodes_;
  std::vector<OnnxInitializer> initializers_;
};

}  // namespace harmonics::inline in_models
