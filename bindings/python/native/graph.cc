// Graph: reading, building, cutting, drawing and saving.
#include <algorithm>

#include <nanobind/operators.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/graph/export.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/models/export_model.h>
#include <harmonics/models/import_model.h>

#include "arrays.h"
#include "core.h"
#include "graph_edits.h"
#include "model.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace harmonics::python {
namespace {

Model model_of(HarmonicGraph graph) {
  Model model;
  model.document.graph = std::move(graph);
  return model;
}

Model loaded(const std::filesystem::path& path) {
  Model model;
  model.document = load_harp_document(path);
  model.file = path;
  return model;
}

std::vector<Model> cut(const Model& model, std::size_t parts) {
  std::vector<Model> made;
  for (HarmonicGraph& part : partition_graph(model.graph(), parts)) {
    made.push_back(model_of(std::move(part)));
  }
  return made;
}

void save(const Model& model, const std::filesystem::path& path) {
  if (model.weights.entries().empty()) {
    return write_text_file(path, to_harp(model.graph()));
  }
  ImportedModel written;
  written.graph = model.graph();
  written.harp = to_harp(model.graph());
  written.weights = model.weights;
  static_cast<void>(write_model(written, path, WeightsMode::kCopy));
}

nb::dict weights_of(const Model& model) {
  nb::dict made;
  for (const auto& [name, entry] : model.weights.entries()) {
    made[name.c_str()] = array_of(model.weights.read(name), ArrayKind::kNumpy);
  }
  return made;
}

Model with_weights(const Model& model, const nb::dict& given) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, array] : given) {
    const std::string key = nb::cast<std::string>(name);
    tensors.emplace(key, tensor_of(array, "weights of '" + key + "'", DType::kFloat32));
  }
  return with_tensors(model, std::move(tensors));
}

Attribute attribute_of(nb::handle value, const std::string& name) {
  if (nb::isinstance<nb::bool_>(value)) return std::int64_t{nb::cast<bool>(value)};
  if (nb::isinstance<nb::int_>(value)) return nb::cast<std::int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  Shape numbers;
  if (nb::try_cast(value, numbers)) return numbers;
  throw nb::type_error(
      format("attribute '{}' is a number, a text, true or false, or a list of whole numbers", name)
          .c_str());
}

Model edited_as_told(const Model& model, const std::string& graph_name, const nb::dict& told) {
  std::map<std::string, LayerEdit> edits;
  for (const auto& [layer, edit] : told) {
    LayerEdit made{nb::cast<std::string>(edit[0])};
    for (const auto& [name, value] : nb::cast<nb::dict>(edit[1])) {
      const std::string key = nb::cast<std::string>(name);
      made.attributes.emplace(key, attribute_of(value, key));
    }
    edits.emplace(nb::cast<std::string>(layer), std::move(made));
  }
  return edited(model, graph_name, edits);
}

using ShapeItem = std::variant<std::int64_t, std::string>;

std::vector<Extent> extents_of(const std::vector<ShapeItem>& shape) {
  std::vector<Extent> made;
  for (const ShapeItem& item : shape) {
    std::visit([&](const auto& one) { made.emplace_back(one); }, item);
  }
  return made;
}

GraphBuilder& add_producer(GraphBuilder& builder, std::string name,
                           const std::optional<std::vector<ShapeItem>>& shape,
                           const std::string& dtype) {
  if (!shape) return builder.producer(std::move(name), std::nullopt, dtype_named(dtype));
  return builder.named_producer(std::move(name), extents_of(*shape), dtype_named(dtype));
}

GraphBuilder& add_layer(GraphBuilder& builder, const nb::args& positional,
                        const nb::kwargs& attributes) {
  if (positional.size() < 3 || positional.size() > 4) {
    throw nb::type_error(
        "layer takes a name, a type, its inputs and, if there is one, an activation");
  }
  Attributes made;
  for (const auto& [name, value] : attributes) {
    const std::string key = nb::cast<std::string>(name);
    made.emplace(key, attribute_of(value, key));
  }
  std::vector<std::string> inputs;
  if (nb::isinstance<nb::str>(positional[2])) {
    inputs.push_back(nb::cast<std::string>(positional[2]));
  } else {
    inputs = nb::cast<std::vector<std::string>>(positional[2]);
  }
  return builder.layer(
      nb::cast<std::string>(positional[0]), nb::cast<std::string>(positional[1]), std::move(made),
      std::move(inputs),
      positional.size() == 4 ? nb::cast<std::string>(positional[3]) : std::string());
}

ImportOptions import_options(const nb::dict& given) {
  ImportOptions options;
  for (const auto& [name, value] : given) {
    const std::string key = nb::cast<std::string>(name);
    if (key == "name") {
      options.name = nb::cast<std::string>(value);
    } else if (key == "length") {
      options.length = nb::cast<std::int64_t>(value);
    } else if (key == "classes") {
      options.classes = nb::cast<std::int64_t>(value);
    } else if (key == "shapes") {
      options.shapes = nb::cast<std::map<std::string, Shape>>(value);
    } else if (key == "values") {
      options.values = nb::cast<std::map<std::string, std::vector<double>>>(value);
    } else if (key == "batch") {
      options.batch = nb::cast<std::int64_t>(value);
    } else {
      fail(ErrorCode::kInvalidArgument,
           "there is no option '{}'; there are name, length, classes, shapes, values and batch",
           key);
    }
  }
  return options;
}

Model imported(const std::filesystem::path& path, const nb::dict& given) {
  const ImportOptions options = import_options(given);
  const nb::gil_scoped_release released;
  ImportedModel found = import_model(path, options);
  Model model = model_of(std::move(found.graph));
  model.weights = std::move(found.weights);
  model.architecture = found.architecture;
  model.left_out = found.left_out;
  model.origins = std::move(found.origins);
  return model;
}

std::string shown(const Model& model) {
  const HarmonicGraph& graph = model.graph();
  return format("<Graph '{}': {} layers, {} parameters>", graph.name(), graph.layers().size(),
                graph.resolved() ? std::to_string(graph.parameter_count()) : "unknown");
}

void bind_nodes(nb::module_& module) {
  nb::class_<ProducerNode>(module, "ProducerNode", "A tensor that enters a graph.")
      .def_ro("name", &ProducerNode::name, "Its name.")
      .def_ro("shape", &ProducerNode::shape,
              "Its shape without the batch; None: learnt from the data.")
      .def_prop_ro(
          "dtype", [](const ProducerNode& node) { return std::string(dtype_name(node.dtype)); },
          "Such as 'float32'.");
  nb::class_<LayerNode>(module, "LayerNode", "A layer of a graph.")
      .def_ro("name", &LayerNode::name, "Its name.")
      .def_ro("type", &LayerNode::type, "What it computes, such as 'linear'.")
      .def_ro("attributes", &LayerNode::attributes, "Its settings by name.")
      .def_ro("inputs", &LayerNode::inputs, "Producers or layers that it reads.")
      .def_ro("activation", &LayerNode::activation, "Applied to its output; '' for none.");
  nb::class_<ConsumerNode>(module, "ConsumerNode", "A tensor that leaves a graph.")
      .def_ro("name", &ConsumerNode::name, "Its name.")
      .def_ro("input", &ConsumerNode::input, "The producer or layer that it shows.")
      .def_ro("activation", &ConsumerNode::activation, "Applied on the way out; '' for none.");
  nb::class_<TrainingTap>(module, "TrainingTap", "A loss that makes a graph learn.")
      .def_ro("loss", &TrainingTap::loss, "Its kind, such as 'cross_entropy'.")
      .def_ro("prediction", &TrainingTap::prediction, "The layer that is judged.")
      .def_ro("target", &TrainingTap::target, "The producer of what is right.")
      .def_ro("weight", &TrainingTap::weight, "How much it counts beside others.");
}

void bind_builder(nb::module_& module) {
  constexpr auto kSelf = nb::rv_policy::reference;
  nb::class_<GraphBuilder>(
      module, "GraphBuilder",
      "Assembles a graph; nodes may come in any order, and `build` checks everything at once.")
      .def(nb::init<std::string>(), "name"_a = "graph", "A builder of a graph of that name.")
      .def("axis", &GraphBuilder::axis, "name"_a, "ceiling"_a, kSelf,
           "A named axis of at most `ceiling`.")
      .def("producer", &add_producer, "name"_a, "shape"_a = nb::none(), "dtype"_a = "float32",
           kSelf,
           "A tensor that enters: its shape without the batch, numbers or names of axes; None: "
           "learnt from the data.")
      .def("layer", &add_layer, kSelf,
           "layer(name, type, inputs, activation='', **attributes): a layer; `inputs` is a name or "
           "a list of names.")
      .def("consumer", &GraphBuilder::consumer, "name"_a, "input"_a, "activation"_a = "", kSelf,
           "A tensor that leaves.")
      .def("tap", &GraphBuilder::tap, "loss"_a, "prediction"_a, "target"_a, "weight"_a = 1.0, kSelf,
           "A loss to learn from.")
      .def("group", &GraphBuilder::group, "name"_a, kSelf,
           "Layers from now on are never cut apart; '' ends the group.")
      .def(
          "build", [](const GraphBuilder& builder) { return model_of(builder.build()); },
          "The graph, checked.");
}

using GraphClass = nb::class_<Model>;

void bind_makers(GraphClass& graph) {
  graph
      .def_static(
          "parse", [](const std::string& text) { return model_of(parse_harp(text)); }, "text"_a,
          "The graph of a .harp text.")
      .def_static("load", &loaded, "path"_a,
                  "The graph of a .harp file, with its data, its settings and its weights.")
      .def_static(
          "zoo", [](const std::string& name) { return model_of(zoo_graph(name)); }, "name"_a,
          "A well-known network, ready to train.")
      .def_static("zoo_names", &zoo_names, "The names that `zoo` knows.");
}

void bind_facts(GraphClass& graph) {
  graph
      .def_prop_ro(
          "name", [](const Model& model) { return model.graph().name(); }, "The graph's name.")
      .def_prop_ro(
          "producers", [](const Model& model) { return model.graph().producers(); },
          "Tensors that enter.")
      .def_prop_ro(
          "layers", [](const Model& model) { return model.graph().layers(); },
          "Layers in graph order.")
      .def_prop_ro(
          "consumers", [](const Model& model) { return model.graph().consumers(); },
          "Tensors that leave.")
      .def_prop_ro(
          "taps", [](const Model& model) { return model.graph().taps(); }, "Losses to learn from.")
      .def_prop_ro(
          "resolved", [](const Model& model) { return model.graph().resolved(); },
          "Whether every shape is known.")
      .def_prop_ro(
          "parameter_count", [](const Model& model) { return model.graph().parameter_count(); },
          "Trainable numbers.")
      .def_prop_ro(
          "left_out", [](const Model& model) { return model.left_out; },
          "What of an imported model the graph does not have, such as chance in training.")
      .def_prop_ro(
          "architecture", [](const Model& model) { return model.architecture; },
          "What it was imported from, such as 'ONNX'; '' for others.")
      .def_prop_ro(
          "file", [](const Model& model) { return model.file; },
          "The .harp file that it was loaded from.");
}

void bind_views(GraphClass& graph) {
  graph
      .def(
          "shape",
          [](const Model& model, const std::string& tensor) {
            return model.graph().spec(tensor).shape;
          },
          "tensor"_a, "The shape of a producer or of a layer's output, without the batch.")
      .def(
          "harp", [](const Model& model) { return to_harp(model.graph()); },
          "The graph as .harp text.")
      .def(
          "svg", [](const Model& model) { return to_svg(model.graph()); },
          "A drawing of the graph.")
      .def(
          "dot", [](const Model& model) { return to_dot(model.graph()); },
          "The graph for Graphviz.")
      .def(
          "_repr_svg_", [](const Model& model) { return to_svg(model.graph()); }, "For notebooks.");
}

void bind_edits(GraphClass& graph) {
  graph
      .def("partition", &cut, "parts"_a,
           "Cuts the graph into that many parts, which compute together what it computes, bit for "
           "bit.")
      .def("with_loss", &with_loss, "loss"_a, "target"_a = "label", "prediction"_a = "",
           "weight"_a = 1.0,
           "The graph with a loss to learn from; a target that it does not have yet becomes a "
           "producer. `prediction` is "
           "a consumer or a layer; '': the only consumer.")
      .def("_edited", &edited_as_told, "name"_a, "edits"_a,
           "The graph with other names and attributes of layers: {layer: (name, {attribute: "
           "value})}.")
      .def("weights", &weights_of,
           "Start values by parameter, as arrays over the memory where they lie.")
      .def("with_weights", &with_weights, "weights"_a,
           "The graph with these start values, which stay where they are; parameters that are not "
           "named keep theirs.")
      .def(
          "_origins",
          [](const Model& model) {
            nb::dict made;
            for (const auto& [name, origin] : model.origins) {
              made[name.c_str()] = nb::make_tuple(origin.name, origin.turned);
            }
            return made;
          },
          "Parameters that are tensors of the source: its name there, and whether ours is "
          "transposed.")
      .def("save", &save, "path"_a,
           "Writes a .harp file and, where there are weights, a safetensors file beside it.")
      .def("__repr__", &shown)
      .def(
          "__eq__",
          [](const Model& one, const Model& other) { return one.graph() == other.graph(); },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"));
}

}  // namespace

void bind_graph(nb::module_& module) {
  bind_nodes(module);
  GraphClass graph(
      module, "Graph",
      "A neural network: producers, layers, consumers and training taps, checked and in order.");
  bind_makers(graph);
  bind_facts(graph);
  bind_views(graph);
  bind_edits(graph);
  bind_builder(module);
  module.def("_import_model", &imported, "path"_a, "options"_a);
}

}  // namespace harmonics::python
