// A short, seeded run of the fuzzer of ONNX files, with every build.
#include <gtest/gtest.h>

#include <fuzz_mutation_testing.h>

#include "onnx_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_models {
namespace {

// Images, rows and sequences through operators with many attributes and inputs.
std::string wide_file() {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2, 4, 4}), onnx_value("r", {3, 4}),
                  onnx_value("s", {5, 0, 2})};
  const auto tensor = [&](const char* name, std::vector<std::uint64_t> shape) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    return onnx_tensor(name, shape, std::vector<float>(count, 0.5F));
  };
  parts.initializers = {tensor("w", {2, 2, 3, 3}),
                        tensor("g", {3, 4}),
                        tensor("W", {1, 12, 2}),
                        tensor("R", {1, 12, 3}),
                        tensor("B", {1, 24}),
                        tensor("n", {4}),
                        onnx_tensor("scales", {4}, {1, 1, 0.6F, 2}),
                        onnx_integers("pads", {0, 0, 1, 1, 0, 0, 2, 0}),
                        onnx_integers("axes", {-1}),
                        onnx_integers("ids", {1, 0})};
  parts.nodes = {
      onnx_node("ConvTranspose", {"x", "w"}, {"t"},
                {onnx_list("strides", {2, 2}), onnx_list("output_shape", {9, 9})}),
      onnx_node("Resize", {"t", "", "scales"}, {"z"}, {onnx_integer("antialias", 1)}),
      onnx_node("Pad", {"z", "pads"}, {"p"}),
      onnx_node("MaxPool", {"p"}, {"m"},
                {onnx_list("kernel_shape", {3, 3}), onnx_integer("ceil_mode", 1)}),
      onnx_node("LSTM", {"s", "W", "R", "B"}, {"Y", "H", "C"}, {onnx_integer("hidden_size", 3)}),
      onnx_node("Gemm", {"r", "g", "r"}, {"q"}, {onnx_integer("transB", 1)}),
      onnx_node("LayerNormalization", {"r", "n"}, {"l", "mean", "inverse"}),
      onnx_node("Gather", {"l", "ids"}, {"a"}),
      onnx_node("Where", {"a", "a", "a"}, {"b"}),
      onnx_node("ReduceLogSumExp", {"r"}, {"e"}),
      onnx_node("Split", {"r"}, {"u", "v"}, {onnx_integer("axis", 1)}),
      onnx_node("Pow", {"u", "v"}, {"o"}),
      onnx_node("Clip", {"o", "e"}, {"c"})};
  parts.outputs = {onnx_value("m", {}), onnx_value("H", {}), onnx_value("q", {}),
                   onnx_value("inverse", {}), onnx_value("c", {})};
  return onnx_file(onnx_graph(parts), 18);
}

TEST(OnnxFuzz, DamagedFilesNeverCrash) {
  OnnxParts parts;
  parts.inputs = {onnx_value("x", {0, 2, 4, 4})};
  parts.initializers = {onnx_tensor("w", {1, 2, 1, 1}, {1, 2}), onnx_integers("to", {0, -1}),
                        onnx_tensor("m", {16, 3}, std::vector<float>(48, 1)),
                        onnx_integers("zero", {0}), onnx_integers("two", {2})};
  const std::string branch =
      onnx_graph({{onnx_node("Identity", {"r"}, {"b"})}, {}, {}, {onnx_value("b", {})}});
  parts.nodes = {onnx_node("Conv", {"x", "w"}, {"c"}, {onnx_list("strides", {1, 1})}),
                 onnx_node("Relu", {"c"}, {"r"}),
                 onnx_node("Shape", {"r"}, {"s"}),
                 onnx_node("Gather", {"s", "zero"}, {"g"}),
                 onnx_node("Equal", {"g", "two"}, {"e"}),
                 onnx_node("If", {"e"}, {"i"},
                           {ProtoWriter().bytes(1, "then_branch").bytes(6, branch).text(),
                            ProtoWriter().bytes(1, "else_branch").bytes(6, branch).text()}),
                 onnx_node("Reshape", {"i", "to"}, {"f"}),
                 onnx_node("MatMul", {"f", "m"}, {"y"}),
                 onnx_node("Slice", {"y", "zero", "two", "two"}, {"z"}),
                 onnx_node("Transpose", {"m"}, {"t"}),
                 onnx_node("Softmax", {"y"}, {"p"})};
  parts.outputs = {onnx_value("p", {0, 3})};
  FuzzMutation mutation(1, {onnx_file(onnx_graph(parts)), wide_file()},
                        {"Conv", "GRU", "ReduceMean", "MatMul", "AveragePool", "Reshape", "Slice",
                         "Gather", "Expand", "Range", "axes", "pads", "MaxPool", "Concat",
                         std::string("\xff\xff\xff\xff\x7f", 5), std::string(9, '\xff')});
  for (int round = 0; round < 20'000; ++round) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

TEST(OnnxFuzz, FilesThatAreCutShortNeverCrash) {
  const std::string whole = wide_file();
  for (std::size_t size = 0; size <= whole.size(); ++size)
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(whole.data()), size);
}

}  // namespace
}  // namespace harmonics::inline in_models
