// From the nodes of an ONNX file to the layers of a graph (private to models).
//
// Every value is either known (a Constant, computed at import) or lives in the graph (a tensor of a
// producer or layer). ONNX counts the batch among the axes, a graph does not: a living value knows
// which of its ONNX axes is the batch, and `kBatchExtent` stands there in its shape, a number that
// no real extent equals, so that shape arithmetic in the file works with it and is recognised.
// Where a file has no batch (OnnxChoices::batch), whole tensors are samples, and all axes are the
// sample's.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <harmonics/graph/graph.h>

#include "constant.h"
#include "fold.h"
#include "onnx_model.h"

namespace harmonics::inline in_models {

/// Stands for Living::batch_axis where no axis is the batch.
inline constexpr std::size_t kNoBatch = std::numeric_limits<std::size_t>::max();

/// A tensor of the graph that is being made.
struct Living {
  std::string tensor;
  /// As ONNX counts, kBatchExtent at the batch's place.
  Shape shape;
  DType dtype = DType::kFloat32;
  std::size_t batch_axis = 0;

  [[nodiscard]] bool has_batch() const { return batch_axis != kNoBatch; }
  /// Without the batch axis, as the graph counts.
  [[nodiscard]] Shape sample() const;
};

using OnnxValue = std::variant<Constant, Living>;

/// What is not in the file: shapes that it leaves open, inputs that become constants, and which
/// axis is the batch.
struct OnnxChoices {
  /// By input, without the batch axis.
  std::map<std::string, Shape> shapes = {};
  /// Numbers of inputs, in the order of their elements.
  std::map<std::string, std::vector<double>> values = {};
  /// The batch's place in every input; below 0 there is none. Unset: by the rule of batch_axis.
  std::optional<std::int64_t> batch = {};
};

/// The answer: a graph and the values of its parameters by full name.
struct OnnxImport {
  HarmonicGraph graph;
  std::map<std::string, Constant, std::less<>> weights;
  /// Where the batch of each consumer's tensor stands in the file (kNoBatch: nowhere).
  std::map<std::string, std::size_t> batch_axes;
};

/// The bytes of a file beside the model that its tensors lie in.
using OnnxFileBytes = std::function<ByteSpan(const std::string& location)>;

class OnnxImporter;

/// How one operator is imported. It reads the node's inputs from the importer and sets its outputs.
using OnnxHandler = void (*)(OnnxImporter& importer, const OnnxNode& node);
/// Null for an operator that is not covered.
[[nodiscard]] OnnxHandler find_onnx_handler(std::string_view op);
/// All that are covered, in alphabetical order.
[[nodiscard]] std::vector<std::string> onnx_operator_names();

/// A name of the file as a name of a graph: what is no letter, digit or dot becomes "_".
[[nodiscard]] std::string onnx_user_name(std::string_view wish);

/// Walks over the nodes of one model. Used once, by import_onnx.
class OnnxImporter {
 public:
  /// Without `other_files` a tensor in another file is an Error.
  OnnxImporter(const OnnxModel& model, std::string file, const OnnxChoices& choices,
               OnnxFileBytes other_files = {});

  [[nodiscard]] OnnxImport run();

  // For handlers.
  [[nodiscard]] std::int64_t opset() const { return model_.opset; }
  /// Throws an Error (kUnimplemented) that names file and node: "… is not imported: <what>".
  [[noreturn]] void refuse(const OnnxNode& node, const std::string& what) const;
  [[nodiscard]] bool has_input(const OnnxNode& node, std::size_t index) const;
  /// True where an output is named and something reads it.
  [[nodiscard]] bool wants(const OnnxNode& node, std::size_t output) const;
  [[nodiscard]] const OnnxValue& input(const OnnxNode& node, std::size_t index) const;
  /// The input as a tensor of the graph; a constant there is refused.
  [[nodiscard]] const Living& living(const OnnxNode& node, std::size_t index) const;
  /// The input as a constant, or null when it is not known at import.
  [[nodiscard]] const Constant* constant(const OnnxNode& node, std::size_t index) const;
  /// The same; one that is not known is refused.
  [[nodiscard]] const Constant& known(const OnnxNode& node, std::size_t index) const;
  /// Numbers that newer opsets take as an input and older ones as an attribute.
  [[nodiscard]] std::vector<std::int64_t> list(const OnnxNode& node, std::string_view attribute,
                                               std::size_t index) const;
  /// True where whole tensors are samples.
  [[nodiscard]] bool is_whole() const { return choices_.batch.value_or(0) < 0; }
  /// Refuses values whose batches are different axes when seen from the last, as they broadcast.
  void check_batches(const OnnxNode& node, const Living& a, const Living& b) const;
  /// An axis of a living value as the graph counts it (the batch's place left out).
  [[nodiscard]] std::int64_t sample_axis(const OnnxNode& node, const Living& value,
                                         std::int64_t axis) const;

  /// Adds a layer for output number `index` of the node and gives it; `like` says dtype and batch
  /// axis, `shape` is ONNX's. The name is the node's, made a user's name and unique.
  Living add_layer(const OnnxNode& node, std::string_view type, Attributes attributes,
                   const std::vector<Living>& inputs, Shape shape);
  /// A constant as a value of every sample, its batch where `like` has it; a constant that differs
  /// from sample to sample is refused.
  Living constant_layer(const OnnxNode& node, const Constant& value, const Living& like);
  /// An input as a tensor of the graph: a constant becomes a layer, its batch where `like` has it.
  Living living_or_layer(const OnnxNode& node, std::size_t index, const Living& like);
  /// The value seen as `shape` (ONNX's, with the batch at `batch_axis`).
  Living reshaped(const OnnxNode& node, const Living& x, Shape shape, std::size_t batch_axis);
  /// The value as another dtype.
  Living cast(const OnnxNode& node, const Living& x, DType to);
  /// A parameter of the layer that was added last.
  void set_weight(const Living& layer, std::string_view parameter, const Constant& value);
  /// The activation of a layer that a handler added and nothing has read yet.
  void set_activation(const Living& layer, const std::string& activation);
  /// Applies an activation: to the layer itself where nobody else reads it, else by an identity.
  Living activated(const OnnxNode& node, const Living& value, const std::string& activation);
  void set_output(const OnnxNode& node, std::size_t index, OnnxValue value);

 private:
  void add_initializers(const OnnxGraph& graph);
  void check_choices() const;
  void add_inputs();
  void check_operators(const OnnxGraph& graph) const;
  void count_readers(const OnnxGraph& graph);
  void import_node(const OnnxNode& node);
  void inline_branch(const OnnxNode& node);
  [[nodiscard]] bool is_one_sample(const OnnxNode& node) const;
  void import_one_sample(const OnnxNode& node, OnnxHandler handler);
  /// Names of consumers and the tensors that leave by them.
  [[nodiscard]] std::vector<std::pair<std::string, Living>> outputs();
  void check_shapes(const HarmonicGraph& graph) const;
  [[nodiscard]] Constant stored(const OnnxTensor& tensor) const;
  [[nodiscard]] std::size_t batch_axis(const OnnxValueInfo& input) const;
  [[nodiscard]] Shape input_shape(const OnnxValueInfo& input, std::size_t batch) const;
  [[nodiscard]] Constant given_value(const OnnxValueInfo& input,
                                     const std::vector<double>& numbers) const;
  [[nodiscard]] Living output_value(const OnnxValueInfo& output);
  [[nodiscard]] std::string unique_name(std::string_view wish);

  const OnnxModel& model_;
  std::string file_;
  const OnnxChoices& choices_;
  OnnxFileBytes other_files_;
  std::map<std::string, OnnxValue, std::less<>> values_;
  std::map<std::string, std::size_t, std::less<>> readers_;
  std::map<std::string, std::string, std::less<>> layer_values_;
  std::map<std::string, int, std::less<>> names_;
  std::vector<ProducerNode> producers_;
  std::vector<LayerNode> layers_;
  std::vector<Shape> shapes_;  // of the layers, as ONNX counts
  std::map<std::string, std::size_t, std::less<>> layer_places_;
  std::map<std::string, Constant, std::less<>> weights_;
};

}  // namespace harmonics::inline in_models
