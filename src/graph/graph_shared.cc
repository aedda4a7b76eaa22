// Parameters that are not simply their layer's own: frozen ones and tied ones.
#include <algorithm>
#include <span>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/base/number_text.h>
#include <harmonics/graph/sent_weights.h>

#include "builtin/shared_attributes.h"

namespace harmonics::inline in_graph {
namespace {

constexpr std::string_view kTrainable = "trainable";
constexpr std::string_view kTie = "tie";
constexpr std::string_view kTieStart = "tie_start";
constexpr std::string_view kTieInput = "tie_input";
constexpr std::string_view kTiedParameter = "weight";

const std::string* text_of(const LayerNode& layer, std::string_view name) {
  const auto found = layer.attributes.find(std::string(name));
  return found == layer.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
}

// Where "@<part>" begins in a tie to another part, or the end.
std::size_t mark_of(std::string_view tie) {
  const std::size_t at = tie.rfind('@');
  if (at == std::string_view::npos || at + 1 == tie.size()) return tie.size();
  const bool digits = tie.find_first_not_of("0123456789", at + 1) == std::string_view::npos;
  return digits ? at : tie.size();
}

// How an owner draws its start values: "normal 0.02 learns".
std::string start_text(const ParameterSpec& spec) {
  const char* kind = spec.init == Init::kNormal    ? "normal"
                     : spec.init == Init::kUniform ? "uniform"
                                                   : "constant";
  return format("{} {} {}", kind, spec.scale, spec.trainable ? "learns" : "frozen");
}

// The reverse, into `spec`; false for another text.
bool read_start(std::string_view text, ParameterSpec& spec) {
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return false;
  const std::string_view kind = text.substr(0, first);
  const std::string_view state = text.substr(second + 1);
  const auto scale = number_from<double>(text.substr(first + 1, second - first - 1));
  if (!scale || (kind != "normal" && kind != "uniform" && kind != "constant") ||
      (state != "learns" && state != "frozen")) {
    return false;
  }
  spec.init = kind == "normal"    ? Init::kNormal
              : kind == "uniform" ? Init::kUniform
                                  : Init::kConstant;
  spec.scale = *scale;
  spec.trainable = state == "learns";
  return true;
}

struct Place {
  std::size_t layer = 0;
  std::size_t parameter = 0;
};

// The parameter of that full name; layers' and parameters' names may hold dots.
std::optional<Place> find_parameter(const HarmonicGraph& graph, std::string_view name) {
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    const auto layer = graph.layer_index(name.substr(0, dot));
    if (!layer) continue;
    const auto& parameters = graph.layer_shape(*layer).parameters;
    const auto found = std::ranges::find(parameters, name.substr(dot + 1), &ParameterSpec::name);
    if (found == parameters.end()) continue;
    return Place{*layer, static_cast<std::size_t>(found - parameters.begin())};
  }
  return std::nullopt;
}

[[noreturn]] void refuse_tie(const LayerNode& layer, std::string_view tie, std::string_view why) {
  fail(ErrorCode::kInvalidArgument, "layer '{}' ({}) cannot be tied to '{}': {}", layer.name,
       layer.type, tie, why);
}

// Whether one of these layers holds the parameter of that name, which a layer elsewhere names.
bool holds_tied(std::span<const LayerShape> shapes, std::string_view name) {
  const auto held = [&](const ParameterSpec& spec) { return spec.away && spec.tied_to == name; };
  return std::ranges::any_of(
      shapes, [&](const LayerShape& shape) { return std::ranges::any_of(shape.parameters, held); });
}

std::string near_parameters(const HarmonicGraph& graph, const std::string& name) {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& spec : graph.layer_shape(i).parameters) {
      known.push_back(graph.layers()[i].name + "." + spec.name);
    }
  }
  return suggestion(name, known);
}

}  // namespace

bool is_shared_attribute(std::string_view name) {
  return name == kTrainable || name == kTie || name == kTieStart || name == kTieInput ||
         name == kTieHomeMark;
}

void check_shared_attributes(const LayerNode& layer) {
  const auto refuse = [&](std::string_view what) {
    fail(ErrorCode::kInvalidArgument, "layer '{}' ({}): {}", layer.name, layer.type, what);
  };
  if (const auto frozen = layer.attributes.find(std::string(kTrainable));
      frozen != layer.attributes.end()) {
    const auto* value = std::get_if<std::int64_t>(&frozen->second);
    if (value == nullptr || *value < 0 || *value > 1) refuse("'trainable' is true or false");
  }
  const std::string* tie = text_of(layer, kTie);
  if (layer.attributes.contains(std::string(kTie)) &&
      (tie == nullptr || tie->find('.') == std::string::npos)) {
    refuse("'tie' names a parameter, as in tie=embedding.weight");
  }
  const bool starts = layer.attributes.contains(std::string(kTieStart));
  const bool away = tie != nullptr && mark_of(*tie) != tie->size();
  ParameterSpec ignored;
  const std::string* start = text_of(layer, kTieStart);
  if (starts != away || (starts && (start == nullptr || !read_start(*start, ignored)))) {
    refuse("'tie_start' and a tie to another part belong together and are made by a cut");
  }
  if (layer.attributes.contains(std::string(kTieInput)) && (!away || !takes_weight(layer))) {
    refuse("'tie_input' is true, belongs to a tie to another part and is made by a cut");
  }
  if (layer.attributes.contains(std::string(kTieHomeMark)) &&
      (!away || takes_weight(layer) || !holds_for_owner(layer))) {
    refuse("'tie_home' is true, belongs to a tie to another part and is made by a cut");
  }
}

void HarmonicGraph::share_parameters() {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!is_frozen(layers_[i])) continue;
    for (ParameterSpec& spec : shapes_[i].parameters) spec.trainable = false;
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) tie_parameter(i);
}

// The owner decides how a shared parameter starts and whether it learns.
void HarmonicGraph::tie_parameter(std::size_t index) {
  const LayerNode& layer = layers_[index];
  const std::string* tie = text_of(layer, kTie);
  if (tie == nullptr) return;
  auto& own = shapes_[index].parameters;
  const auto weight = std::ranges::find(own, kTiedParameter, &ParameterSpec::name);
  if (weight == own.end()) refuse_tie(layer, *tie, "it has no parameter 'weight'");
  weight->tied_to = tie->substr(0, mark_of(*tie));
  if (weight->tied_to.size() != tie->size()) {
    (void)read_start(*text_of(layer, kTieStart), *weight);
    // The first layer of this part that is tied to it holds the tensor for the others.
    weight->away =
        takes_weight(layer) || !holds_tied(std::span(shapes_).first(index), weight->tied_to);
    if (takes_weight(layer)) give_weight(index, static_cast<int>(weight - own.begin()));
    return;
  }
  const auto owner = find_parameter(*this, *tie);
  if (!owner) {
    refuse_tie(layer, *tie, format("there is no such parameter{}", near_parameters(*this, *tie)));
  }
  const ParameterSpec& shared = shapes_[owner->layer].parameters[owner->parameter];
  if (owner->layer == index) refuse_tie(layer, *tie, "that is its own");
  if (text_of(layers_[owner->layer], kTie) != nullptr && shared.name == kTiedParameter) {
    refuse_tie(layer, *tie,
               format("that is tied itself, to '{}': name that one",
                      *text_of(layers_[owner->layer], kTie)));
  }
  if (shared.shape != weight->shape ||
      shapes_[owner->layer].output.dtype != shapes_[index].output.dtype) {
    refuse_tie(layer, *tie,
               format("that is {} of {}, this layer needs {} of {}",
                      dtype_name(shapes_[owner->layer].output.dtype), shape_text(shared.shape),
                      dtype_name(shapes_[index].output.dtype), shape_text(weight->shape)));
  }
  weight->init = shared.init;
  weight->scale = shared.scale;
  weight->trainable = shared.trainable;
}

// What comes as an input is no parameter of this part.
void HarmonicGraph::give_weight(std::size_t index, int place) {
  LayerShape& shape = shapes_[index];
  const ParameterSpec& weight = shape.parameters[static_cast<std::size_t>(place)];
  const TensorSpec& given = specs_.at(layers_[index].inputs.back());
  if (given.shape != weight.shape || given.dtype != shape.output.dtype) {
    refuse_tie(layers_[index], weight.tied_to,
               format("{} comes as its last input, it needs {} of {}", spec_text(given),
                      dtype_name(shape.output.dtype), shape_text(weight.shape)));
  }
  shape.given_weight = place;
  shape.parameters.erase(shape.parameters.begin() + place);
}

bool is_frozen(const LayerNode& layer) {
  const auto trainable = layer.attributes.find(std::string(kTrainable));
  return trainable != layer.attributes.end() && trainable->second == Attribute{std::int64_t{0}};
}

std::string parameter_name(const LayerNode& layer, const ParameterSpec& parameter) {
  return parameter.tied_to.empty() ? layer.name + "." + parameter.name : parameter.tied_to;
}

std::optional<std::size_t> tie_owner(const HarmonicGraph& graph, std::size_t index) {
  const std::string* tie = text_of(graph.layers()[index], kTie);
  if (tie == nullptr || mark_of(*tie) != tie->size()) return std::nullopt;
  return find_parameter(graph, *tie)->layer;
}

void mark_tie_away(const HarmonicGraph& graph, std::size_t index, std::size_t part,
                   LayerNode& layer) {
  const auto& own = graph.layer_shape(index).parameters;
  const auto weight = std::ranges::find(own, kTiedParameter, &ParameterSpec::name);
  layer.attributes[std::string(kTie)] =
      format("{}@{}", parameter_name(graph.layers()[index], *weight), part);
  layer.attributes[std::string(kTieStart)] = start_text(*weight);
}

void make_tie_home(LayerNode& layer) {
  layer.attributes[std::string(kTieHomeMark)] = std::int64_t{1};
}

bool takes_weight(const LayerNode& layer) {
  const auto input = layer.attributes.find(std::string(kTieInput));
  return input != layer.attributes.end() && input->second == Attribute{std::int64_t{1}};
}

void take_weight_over(const std::string& boundary, LayerNode& layer) {
  layer.attributes[std::string(kTieInput)] = std::int64_t{1};
  layer.inputs.push_back(boundary);
}

LayerNode weight_sender(const HarmonicGraph& graph, std::size_t index, const std::string& name,
                        std::optional<std::size_t> owner_part) {
  const LayerShape& shape = graph.layer_shape(index);
  const auto weight = std::ranges::find(shape.parameters, kTiedParameter, &ParameterSpec::name);
  LayerNode sender;
  sender.name = name;
  sender.type = "weight";
  sender.attributes = {{"shape", weight->shape},
                       {"dtype", std::string(dtype_name(shape.output.dtype))},
                       {std::string(kTie), parameter_name(graph.layers()[index], *weight)}};
  if (owner_part) mark_tie_away(graph, index, *owner_part, sender);
  return sender;
}

}  // namespace harmonics::inline in_graph
