// Graphs as ONNX files with what they should compute: onnx_export_cases FOLDER.
//
// Every layer that ships, networks of the zoo and small models of tokens and images are exported
// with random weights, and re-imported: what comes back must compute the same within 1e-5. FOLDER
// gets NAME.onnx, inputs and outputs as plain numbers, and `cases`, a line per tensor:
// "NAME input|output TENSOR DTYPE EXTENT,EXTENT,… FILE". What has no spelling is printed as
// "NAME refused: …". Exits with 1 where something came back wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/models/export_model.h>
#include <harmonics/models/import_model.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/stage.h>

#include "layer_cases_testing.h"

namespace harmonics {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 3;

/// A graph, and for its inputs of whole numbers how far these go.
struct ExportCase {
  std::string name;
  HarmonicGraph graph;
  std::int64_t below = 2;
  bool positive = false;
  /// Tensors beside the file.
  bool apart = false;
};

const char* const kVit = R"(
harmonic small_vit {
  producer image {3, 32, 32};
  layer patches conv2d(out=48, kernel=8, stride=8);
  layer rows tokens;
  layer start class_token;
  layer places position;
  repeat 2 as i {
    layer norm$i layer_norm(eps=1e-6); layer look$i attention(heads=4); layer sum$i add;
    layer even$i layer_norm(eps=1e-6); layer wide$i linear(96); layer narrow$i linear(48);
    layer out$i add;
  }
  layer last layer_norm; layer first select; layer head linear(10);
  consumer logits {10};
  cycle {
    image -> patches -> rows -> start -> places -> norm1 -> look1;
    look1, places -> sum1 -> even1 -(gelu)-> wide1 -> narrow1;
    narrow1, sum1 -> out1 -> norm2 -> look2;
    look2, out1 -> sum2 -> even2 -(gelu_tanh)-> wide2 -> narrow2;
    narrow2, sum2 -> out2 -> last -> first -> head -> logits;
  }
})";

const char* const kDecoder = R"(
harmonic decoder {
  axis T <= 24;
  producer ids {T} int64;
  producer mask {T} int64;
  layer words embedding(rows=50, width=32);
  layer places position(rows=40, offset=2);
  layer norm rms_norm;
  layer look attention(heads=4, separate=true, kv_heads=2, head_dim=8, causal=true, window=6,
                       rope=llama, bias=false);
  layer sum add;
  layer even rms_norm; layer gate linear(64, bias=false); layer up linear(64, bias=false);
  layer both mul; layer down linear(32, bias=false); layer out add;
  layer head linear(50, bias=false, tie=words.weight);
  layer pooled mean;
  consumer logits {T, 50};
  consumer sentence {32};
  cycle {
    ids -> words -> places -> norm; norm, mask -> look;
    look, places -> sum -> even -(silu)-> gate; even -> up; gate, up -> both -> down;
    down, sum -> out -> head -> logits;
    out, mask -> pooled -> sentence;
  }
})";

std::vector<ExportCase> all_cases() {
  std::vector<ExportCase> all;
  for (const LayerCase& item : layer_cases()) {
    GraphBuilder builder("layer");
    std::vector<std::string> names;
    std::int64_t below = 2;
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      names.push_back(format("x{}", i));
      const bool whole = item.ids_below(i) > 0;
      if (whole) below = item.ids_below(i);
      builder.producer(names.back(), item.inputs[i], whole ? DType::kInt64 : DType::kFloat32);
    }
    builder.layer("y", item.type, item.attributes, names, item.activation).consumer("out", "y");
    std::string name = item.label;
    std::ranges::replace_if(
        name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    all.push_back({name, builder.build(), below, item.positive});
  }
  for (const char* name : {"digits-mlp", "lenet", "transformer-small"})
    all.push_back({name, zoo_graph(name), 2, false, std::string(name) == "lenet"});
  for (const char* name : {"resnet18", "resnet50"}) {
    std::string text = to_harp(zoo_graph(name));
    const std::string large = "{3, 224, 224}";
    text.replace(text.find(large), large.size(), "{3, 64, 64}");
    all.push_back({name, parse_harp(text)});
  }
  all.push_back({"small_vit", parse_harp(kVit)});
  all.push_back({"decoder", parse_harp(kDecoder).with_axes({{"T", 11}}), 50});
  return all;
}

Tensor random_batch(const ProducerNode& node, const ExportCase& one, const HarmonicGraph& graph) {
  Shape shape = graph.spec(node.name).shape;
  shape.insert(shape.begin(), kSamples);
  Tensor out = Tensor::empty(shape, DType::kFloat32);
  Random chance(7, one.name + node.name);
  const bool mask = node.name == "mask";
  for (float& number : out.mutable_values<float>()) {
    const auto part = static_cast<float>(chance() / 4294967296.0);
    number = is_floating(node.dtype) ? (one.positive ? 0.1f + part : 2 * part - 1)
             : mask                  ? (part < 0.8f ? 1.0f : 0.0f)
                                     : std::floor(part * static_cast<float>(one.below));
  }
  return convert_tensor(out, node.dtype);
}

void write_tensor(const fs::path& folder, std::string& lines, const std::string& row,
                  const Tensor& tensor) {
  static int number = 0;
  const std::string file = format("tensor_{}", number++);
  AtomicFile out(folder / file);
  out.write(tensor.bytes());
  out.commit();
  std::string extents;
  for (const std::int64_t extent : tensor.shape())
    extents += format("{}{}", extents.empty() ? "" : ",", extent);
  lines += format("{} {} {} {}\n", row, dtype_name(tensor.dtype()), extents, file);
}

NamedTensors computed(const HarmonicGraph& graph, const NamedTensors& weights,
                      const NamedTensors& inputs) {
  Stage stage(graph, {});
  if (!weights.empty()) stage->set_parameters(weights);
  return stage->infer(inputs);
}

// How far what was exported and came in again is off, beside the largest number.
double way_back(const fs::path& file, const NamedTensors& inputs, const NamedTensors& expected,
                const HarmonicGraph& graph) {
  ImportOptions options;
  options.batch = 0;
  for (const auto& [name, value] : inputs) {
    if (!graph.axes().empty())
      options.shapes[name] = Shape(value.shape().begin() + 1, value.shape().end());
  }
  const ImportedModel back = import_model(file, options);
  NamedTensors weights;
  for (const auto& [name, entry] : back.weights.entries()) weights[name] = back.weights.read(name);
  const NamedTensors outputs = computed(back.graph, weights, inputs);
  double worst = 0;
  for (const auto& [name, value] : expected) {
    const Tensor want = convert_tensor(value, DType::kFloat32);
    const Tensor got = convert_tensor(outputs.at(name), DType::kFloat32);
    if (got.shape() != want.shape()) return INFINITY;
    double largest = 1;
    for (const float number : want.values<float>())
      largest = std::max(largest, static_cast<double>(std::abs(number)));
    for (std::int64_t i = 0; i < want.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double a = want.values<float>()[at], b = got.values<float>()[at];
      if (!(std::isnan(a) && std::isnan(b))) worst = std::max(worst, std::abs(a - b) / largest);
    }
  }
  return worst;
}

bool run(const ExportCase& one, const fs::path& folder, std::string& lines) {
  Stage stage(one.graph, {});
  NamedTensors inputs;
  std::map<std::string, Tensor> weights;
  for (const ProducerNode& node : one.graph.producers())
    inputs[node.name] = random_batch(node, one, one.graph);
  for (const auto& [name, value] : stage->parameters()) weights[name] = value;
  const NamedTensors outputs = stage->infer(inputs);
  WeightSource source;
  source.hold(weights);
  const fs::path file = folder / (one.name + ".onnx");
  try {
    export_onnx(one.graph, source, file, one.apart ? 1'000 : kMaxOnnxTensorBytes);
  } catch (const Error& error) {
    std::printf("%s refused: %s\n", one.name.c_str(), error.what());
    return true;
  }
  for (const auto& [name, value] : inputs)
    write_tensor(folder, lines, format("{} input {}", one.name, name), value);
  for (const auto& [name, value] : outputs)
    write_tensor(folder, lines, format("{} output {}", one.name, name), value);
  double off = 0;
  try {
    off = way_back(file, inputs, outputs, one.graph);
  } catch (const Error& error) {
    std::printf("%s does not come back: %s\n", one.name.c_str(), error.what());
    return false;
  }
  std::printf("%s back: %.1e\n", one.name.c_str(), off);
  return off <= 1e-5;
}

}  // namespace
}  // namespace harmonics

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: onnx_export_cases FOLDER\n");
    return 2;
  }
  std::string lines;
  bool right = true;
  for (const harmonics::ExportCase& one : harmonics::all_cases())
    right = harmonics::run(one, argv[1], lines) && right;
  harmonics::write_text_file(std::filesystem::path(argv[1]) / "cases", lines);
  return right ? 0 : 1;
}
