#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/graph/harp.h>
#include <harmonics/models/export_model.h>
#include <harmonics/models/import_model.h>
#include <temporary_folder_testing.h>

#include "onnx_importer.h"

namespace harmonics::inline in_models {
namespace {

Tensor counted(const Shape& shape) {
  Tensor out = Tensor::empty(shape, DType::kFloat32);
  float next = 0;
  for (float& number : out.mutable_values<float>()) number = next++;
  return out;
}

// Every parameter of the graph, counted from 0.
WeightSource counted_weights(const HarmonicGraph& graph) {
  std::map<std::string, Tensor> all;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& one : graph.layer_shape(i).parameters)
      if (one.tied_to.empty())
        all[format("{}.{}", graph.layers()[i].name, one.name)] = counted(one.shape);
  }
  WeightSource source;
  source.hold(std::move(all));
  return source;
}

/// A graph that was exported: what the file says, and the bytes that it looks into.
struct Exported {
  TemporaryFolder folder;
  ExportedOnnx done;
  std::string text;
  OnnxModel model;

  explicit Exported(const std::string& harp, std::uint64_t inside = kMaxOnnxTensorBytes) {
    const HarmonicGraph graph = parse_harp(harp);
    done = export_onnx(graph, counted_weights(graph), folder.path() / "model.onnx", inside);
    text = read_text_file(done.file);
    model = read_onnx(bytes_of(text), "model.onnx");
  }
};

const char* const kSmall = R"(
producer x {4};
producer label {1} int64;
layer hidden linear(3);
layer out linear(2);
layer unused linear(7);
consumer answer {2};
cycle { x -(relu)-> hidden -> out -(softmax)-> answer; hidden -> unused; out <-(cross_entropy)- label; }
)";

std::string refusal(const std::string& harp) {
  try {
    const Exported exported(harp);
  } catch (const Error& error) {
    return error.what();
  }
  return "exported";
}

TEST(OnnxExport, KeepsNamesAndLeavesOutWhatNoConsumerNeeds) {
  const Exported exported(kSmall);
  const OnnxGraph& graph = exported.model.graph;
  EXPECT_EQ(exported.model.opset, 17);
  ASSERT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.inputs[0].name, "x");
  EXPECT_EQ(graph.inputs[0].dimensions[0].name, "N");
  EXPECT_EQ(graph.inputs[0].dimensions[1].value, 4);
  ASSERT_EQ(graph.outputs.size(), 1U);
  EXPECT_EQ(graph.outputs[0].name, "answer");
  std::vector<std::string> made, tensors;
  for (const OnnxNode& node : graph.nodes) made.push_back(node.outputs[0]);
  for (const OnnxTensor& tensor : graph.initializers) tensors.push_back(tensor.name);
  EXPECT_EQ(made, (std::vector<std::string>{"hidden/Gemm", "hidden", "out", "answer"}));
  EXPECT_EQ(tensors,
            (std::vector<std::string>{"hidden.weight", "hidden.bias", "out.weight", "out.bias"}));
  EXPECT_EQ(exported.done.nodes, 4U);
  EXPECT_TRUE(exported.done.data.empty());
}

TEST(OnnxExport, WhatIsLargeLiesBesideTheFile) {
  const Exported exported(kSmall, 16);
  EXPECT_EQ(exported.done.data.filename(), "model.onnx.data");
  const OnnxTensor& second = exported.model.graph.initializers.at(1);
  EXPECT_EQ(second.location, "model.onnx.data");
  EXPECT_EQ(second.offset, 4096U);
  EXPECT_EQ(second.length, 12U);
  const ImportedModel back = import_model(exported.done.file);
  EXPECT_EQ(back.weights.read("hidden_Gemm.bias").values<float>()[2], 2.0F);
}

TEST(OnnxExport, ATiedParameterIsWrittenOnce) {
  const Exported exported(R"(
producer ids {3} int64;
layer words embedding(rows=5, width=4);
layer head linear(5, bias=false, tie=words.weight);
consumer logits {3, 5};
cycle { ids -> words -> head -> logits; }
)");
  int count = 0;
  for (const OnnxTensor& tensor : exported.model.graph.initializers)
    count += tensor.name == "words.weight" ? 1 : 0;
  EXPECT_EQ(count, 1);
  EXPECT_EQ(exported.model.graph.initializers.size(), 1U);
}

TEST(OnnxExport, WeightsOf16BitsGoOutAsTheGraphComputes) {
  const TemporaryFolder folder;
  const HarmonicGraph graph = parse_harp(
      "producer x {300}; layer wide linear(400, bias=false); consumer y; cycle { x -> wide -> y; "
      "}");
  std::vector<double> numbers(120'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 200);
  WeightSource weights;
  weights.hold(
      {{"wide.weight", Constant::of_reals({400, 300}, numbers, DType::kBFloat16).tensor()}});
  const ExportedOnnx done = export_onnx(graph, weights, folder.path() / "model.onnx");
  const std::string text = read_text_file(done.file);
  const OnnxModel model = read_onnx(bytes_of(text), "model.onnx");
  const OnnxTensor& tensor = model.graph.initializers.at(0);
  EXPECT_EQ(tensor.spec, (TensorSpec{{400, 300}, DType::kFloat32}));
  EXPECT_EQ(Constant(tensor.spec, tensor.raw).reals(), numbers);
}

TEST(OnnxExport, ANamedAxisIsOpenUnderItsName) {
  const Exported exported(R"(
axis T <= 64;
producer ids {T} int64;
layer words embedding(rows=5, width=4);
layer start class_token;
consumer rows {T+1, 4};
cycle { ids -> words -> start -> rows; }
)");
  EXPECT_EQ(exported.model.graph.inputs[0].dimensions[1].name, "T");
  EXPECT_EQ(exported.model.graph.outputs[0].dimensions[1].name, "T+1");
}

TEST(OnnxExport, WhatHasNoSpellingIsRefusedByLayer) {
  EXPECT_EQ(refusal("producer x {2, 3}; layer edge pad(before={0,1}, after={0,1}, mode=wrap); "
                    "consumer y; cycle { x -> edge -> y; }"),
            "layer 'edge' (pad) has no spelling in ONNX: mode=wrap needs opset 19");
}

TEST(OnnxExport, AMissingTensorIsNamedAndNothingIsWritten) {
  const TemporaryFolder folder;
  const HarmonicGraph graph = parse_harp(kSmall);
  WeightSource weights;
  weights.hold({{"hidden.weight", counted({3, 4})}});
  const std::filesystem::path file = folder.path() / "model.onnx";
  try {
    export_onnx(graph, weights, file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the weights have no tensor 'hidden.bias', which the model has");
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace harmonics::inline in_models
