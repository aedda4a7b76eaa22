#include <harmonics/place/profile_memory.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <harmonics/graph/sent_weights.h>

namespace harmonics::inline in_place {
namespace {

// What one sample of a tensor takes; a parameter on its way to another part is no sample's.
std::int64_t bytes_per_sample(const HarmonicGraph& part, std::string_view tensor) {
  return is_sent_weight(part, tensor) ? 0 : byte_count(part.spec(tensor));
}

// What a layer holds of another part's parameters.
std::int64_t given_weight_bytes(const HarmonicGraph& part, std::size_t layer) {
  if (part.layer_shape(layer).given_weight < 0) return 0;
  return byte_count(part.spec(part.layers()[layer].inputs.back()));
}

}  // namespace

std::string_view profile_mode_name(ProfileMode mode) {
  return mode == ProfileMode::kTraining ? "training" : "inference";
}

std::vector<std::string> entering_tensors(const HarmonicGraph& part, ProfileMode mode) {
  std::set<std::string_view> used;
  for (const LayerNode& layer : part.layers()) {
    used.insert(layer.inputs.begin(), layer.inputs.end());
  }
  for (const ConsumerNode& consumer : part.consumers()) used.insert(consumer.input);
  std::vector<std::string> names;
  for (const ProducerNode& node : part.producers()) {
    if (mode == ProfileMode::kTraining || used.contains(node.name)) names.push_back(node.name);
  }
  return names;
}

std::int64_t entering_bytes(const HarmonicGraph& part, ProfileMode mode) {
  std::int64_t bytes = 0;
  for (const std::string& name : entering_tensors(part, mode)) {
    bytes += bytes_per_sample(part, name);
  }
  return bytes;
}

std::int64_t peak_activation_bytes(const HarmonicGraph& part) {
  std::map<std::string_view, std::size_t> last_use;
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    for (const std::string& input : part.layers()[i].inputs) last_use[input] = i;
  }
  for (const ConsumerNode& node : part.consumers()) last_use[node.input] = part.layers().size();
  std::int64_t alive = entering_bytes(part, ProfileMode::kInference);
  std::int64_t peak = alive;
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    const LayerNode& layer = part.layers()[i];
    const std::int64_t output = bytes_per_sample(part, layer.name);
    alive += output;
    peak = std::max(peak, alive + (layer.activation.empty() ? 0 : output));
    const std::set<std::string_view> inputs(layer.inputs.begin(), layer.inputs.end());
    for (const std::string_view input : inputs) {
      if (last_use.at(input) == i) alive -= bytes_per_sample(part, input);
    }
    if (!last_use.contains(layer.name)) alive -= output;
  }
  return peak;
}

std::int64_t kept_activation_bytes(const HarmonicGraph& part) {
  std::int64_t bytes = entering_bytes(part, ProfileMode::kTraining);
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    const std::int64_t output = bytes_per_sample(part, part.layers()[i].name);
    bytes += part.layers()[i].activation.empty() ? output : 2 * output;
  }
  return bytes;
}

std::int64_t largest_parameter_bytes(const HarmonicGraph& part) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    const LayerShape& shape = part.layer_shape(i);
    for (const ParameterSpec& parameter : shape.parameters) {
      if (!parameter.trainable) continue;
      largest = std::max(largest, byte_count({parameter.shape, shape.output.dtype}));
    }
  }
  return largest;
}

UnitMemory part_memory(const HarmonicGraph& part, ProfileMode mode, std::int64_t batch,
                       const TrainingMemory& training) {
  UnitMemory memory;
  std::int64_t trainable = 0;
  for (std::size_t i = 0; i < part.layers().size(); ++i) {
    const LayerShape& shape = part.layer_shape(i);
    memory.weights += given_weight_bytes(part, i);
    for (const ParameterSpec& parameter : shape.parameters) {
      if (!parameter.tied_to.empty() && !parameter.away) continue;  // its owner's
      const std::int64_t bytes = byte_count({parameter.shape, shape.output.dtype});
      memory.weights += bytes;
      if (parameter.trainable) trainable += bytes;
    }
  }
  if (mode == ProfileMode::kInference) {
    memory.activations = peak_activation_bytes(part) * batch;
    return memory;
  }
  memory.gradients = trainable;
  memory.optimizer = trainable * training.optimizer_slots;
  memory.activations = kept_activation_bytes(part) * batch * training.in_flight;
  memory.kept = (kept_activation_bytes(part) - entering_bytes(part, mode)) * batch;
  memory.scratch = largest_parameter_bytes(part);
  return memory;
}

}  // namespace harmonics::inline in_place
