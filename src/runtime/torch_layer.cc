#include <harmonics/runtime/torch_layer.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <harmonics/base/error.h>

#include "kernels/kernels.h"

namespace harmonics::inline in_runtime {
namespace {

template <typename Function>
using Named = std::map<std::string, Function, std::less<>>;

struct Tables {
  std::mutex mutex;
  Named<TorchLayer> layers;
  Named<TorchActivation> activations;
  Named<TorchActivation> activations_in_place;
  Named<TorchLoss> losses;
  std::set<std::string, std::less<>> foreign_layers;  // those that others have registered
  std::set<std::string, std::less<>> foreign_activations;
  std::set<std::string, std::less<>> foreign_losses;

  Tables()
      : layers(builtin_layers()),
        activations(builtin_activations()),
        activations_in_place(builtin_activations_in_place()),
        losses(builtin_losses()) {}
};

Tables& tables() {
  static Tables instance;
  return instance;
}

template <typename Function>
Function look_up(Named<Function>& table, std::string_view name, const char* what) {
  const std::lock_guard lock(tables().mutex);
  const auto found = table.find(name);
  if (found == table.end()) {
    fail(ErrorCode::kUnimplemented,
         "{} '{}' has no libtorch implementation: register one with register_torch_{}", what, name,
         what);
  }
  return found->second;
}

}  // namespace

void register_torch_layer(std::string type, TorchLayer layer) {
  const std::lock_guard lock(tables().mutex);
  tables().foreign_layers.insert(type);
  tables().layers[std::move(type)] = std::move(layer);
}
void register_torch_activation(std::string name, TorchActivation activation) {
  const std::lock_guard lock(tables().mutex);
  tables().activations_in_place.erase(name);
  tables().foreign_activations.insert(name);
  tables().activations[std::move(name)] = std::move(activation);
}
void register_torch_loss(std::string name, TorchLoss loss) {
  const std::lock_guard lock(tables().mutex);
  tables().foreign_losses.insert(name);
  tables().losses[std::move(name)] = std::move(loss);
}

LayerForward make_layer_forward(const LayerQuery& query) {
  return look_up(tables().layers, query.type, "layer")(query);
}
bool is_builtin_layer(std::string_view type) {
  const std::lock_guard lock(tables().mutex);
  return tables().layers.contains(type) && !tables().foreign_layers.contains(type);
}
bool is_builtin_activation(std::string_view name) {
  const std::lock_guard lock(tables().mutex);
  return !tables().foreign_activations.contains(name);
}
bool is_builtin_loss(std::string_view name) {
  const std::lock_guard lock(tables().mutex);
  return !tables().foreign_losses.contains(name);
}
TorchActivation torch_activation(std::string_view name) {
  return look_up(tables().activations, name, "activation");
}
TorchActivation torch_activation_in_place(std::string_view name) {
  const std::lock_guard lock(tables().mutex);
  const auto found = tables().activations_in_place.find(name);
  return found == tables().activations_in_place.end() ? TorchActivation() : found->second;
}
TorchLoss torch_loss(std::string_view name) { return look_up(tables().losses, name, "loss"); }

}  // namespace harmonics::inline in_runtime
