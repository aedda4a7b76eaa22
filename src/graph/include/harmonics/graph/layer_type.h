// What layers, activations and losses there are, as far as a graph needs to know: attributes,
// number of inputs, shapes, parameters and cost. How they are computed is the runtime's business.
//
// To add a layer: register a LayerType here (or in a builtin_*.cc) and its forward function with
// the runtime (harmonics/runtime/torch_layer.h). CONTRIBUTING.md shows one from start to end.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_graph {

/// A layer's setting: integer (also true = 1, false = 0), real, text, or a list of integers.
using Attribute = std::variant<std::int64_t, double, std::string, Shape>;
using Attributes = std::map<std::string, Attribute>;

/// As .harp spells it: 3, 0.5, same, {8, 8}.
[[nodiscard]] std::string attribute_text(const Attribute& value);

/// How a parameter's start values are drawn. `scale` is the bound, the deviation or the constant.
enum class Init : std::uint8_t { kUniform, kNormal, kConstant };

/// One tensor that a layer owns. Its full name is "<layer>.<name>".
struct ParameterSpec {
  std::string name;
  Shape shape;
  Init init = Init::kUniform;
  double scale = 0;
  /// False for buffers such as running statistics, and for all of a frozen layer: saved and
  /// digested, not trained.
  bool trainable = true;
  /// Set by the graph for a layer with `tie`: the full name of the parameter that this one is.
  std::string tied_to = {};
  /// The owner of a tied parameter lives in another part; this one holds a copy.
  bool away = false;
};

/// What a layer type is asked: a layer's inputs (shapes without the batch axis) and its attributes,
/// complete with defaults. The accessors throw an Error that names layer and attribute.
struct LayerQuery {
  std::string_view layer;
  std::string_view type;
  std::span<const TensorSpec> inputs;
  const Attributes& attributes;

  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  /// An integer of at least `minimum`.
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t minimum) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  /// A list; a single integer n stands for {n}.
  [[nodiscard]] Shape list(std::string_view name) const;
  // The attribute, or `otherwise` where it was not given and has no default.
  [[nodiscard]] std::int64_t integer_or(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] double number_or(std::string_view name, double otherwise) const;
  [[nodiscard]] std::string text_or(std::string_view name, std::string_view otherwise) const;
  /// True when the attribute was given or has a default.
  [[nodiscard]] bool has(std::string_view name) const;
  /// Throws an Error (kInvalidArgument): "layer 'x' (conv2d): <what>; input is float32 {…}".
  [[noreturn]] void refuse(const std::string& what) const;
};

/// The answer: what comes out (without the batch axis), what the layer owns, and what it costs.
struct LayerShape {
  TensorSpec output;
  std::vector<ParameterSpec> parameters;
  /// Floating-point operations of one forward pass over one sample.
  double flops = 0;
  /// Set by the graph for a layer whose weight comes from another part, as its last input: where
  /// the weight stands among the parameters, of which it then is none. -1: no such layer.
  int given_weight = -1;
};

struct AttributeSpec {
  std::string name;
  /// Unset: the attribute must be given (or is optional by `required = false`).
  std::optional<Attribute> fallback;
  bool required = false;
};

/// One kind of layer. Attributes may be given by name or, in this order, by position.
struct LayerType {
  std::string name;
  std::vector<AttributeSpec> attributes;
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;
  std::function<LayerShape(const LayerQuery&)> infer;
};

/// An activation keeps the shape; it may own parameters ("<owner>.<activation>.<name>").
struct ActivationType {
  std::string name;
  std::vector<ParameterSpec> parameters;
};

/// A loss checks that prediction and target fit (shapes without the batch axis); an empty answer
/// means yes, otherwise it says what does not fit.
struct LossType {
  std::string name;
  std::function<std::string(const TensorSpec& prediction, const TensorSpec& target)> check;
};

// Registration is process-wide and thread safe; a name that exists is replaced. Look-ups return a
// copy-free pointer that stays valid, or null.
void register_layer_type(LayerType type);
void register_activation_type(ActivationType type);
void register_loss_type(LossType type);
[[nodiscard]] const LayerType* find_layer_type(std::string_view name);
[[nodiscard]] const ActivationType* find_activation_type(std::string_view name);
[[nodiscard]] const LossType* find_loss_type(std::string_view name);
/// All names in alphabetical order, for error messages and help.
[[nodiscard]] std::vector<std::string> layer_type_names();
[[nodiscard]] std::vector<std::string> activation_type_names();
[[nodiscard]] std::vector<std::string> loss_type_names();

}  // namespace harmonics::inline in_graph
