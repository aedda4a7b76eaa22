// The activations and losses that ship with Harmonics.
#include "builtin.h"

namespace harmonics::inline in_graph {

std::vector<ActivationType> builtin_activation_types() {
  std::vector<ActivationType> types;
  for (const char* name :
       {"relu", "sigmoid", "tanh", "gelu", "gelu_tanh", "quick_gelu", "selu", "softmax", "silu"}) {
    types.push_back({name, {}});
  }
  types.push_back({"prelu", {{"weight", {1}, Init::kConstant, 0.25}}});
  return types;
}

namespace {

std::string same_shape(const TensorSpec& prediction, const TensorSpec& target) {
  if (!is_floating(target.dtype)) return "the target must be floating-point";
  if (prediction.shape != target.shape) return "the shapes must be equal";
  return {};
}

// Class ids {…} or {…, 1} for a prediction {…, classes}, or probabilities of the prediction's
// shape.
std::string check_cross_entropy(const TensorSpec& prediction, const TensorSpec& target) {
  if (prediction.shape.empty()) return "the prediction needs an axis of classes";
  if (is_floating(target.dtype)) {
    if (prediction.shape == target.shape) return {};
    return "a floating-point target holds probabilities and needs the prediction's shape; declare "
           "class ids as int64";
  }
  Shape ids(prediction.shape.begin(), prediction.shape.end() - 1);
  if (target.shape == ids) return {};
  ids.push_back(1);
  if (target.shape == ids) return {};
  return "integer targets are class ids: the prediction's shape without its last axis";
}

// Each row of {length, classes} predicts the id of the row after it.
std::string check_next_token(const TensorSpec& prediction, const TensorSpec& target) {
  if (prediction.shape.size() != 2) return "the prediction must be {length, classes}";
  if (is_floating(target.dtype) || target.dtype == DType::kBool) {
    return "the target holds ids; declare it as int64";
  }
  if (target.shape != Shape{prediction.shape[0]}) return "the target needs an id for every row";
  return {};
}

}  // namespace

std::vector<LossType> builtin_loss_types() {
  return {{"cross_entropy", check_cross_entropy},
          {"mse", same_shape},
          {"bce", same_shape},
          {"next_token", check_next_token}};
}

}  // namespace harmonics::inline in_graph
