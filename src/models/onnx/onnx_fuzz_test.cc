// A short, seeded run of the fuzzer of ONNX files, with every build.
#include <gtest/gtest.h>

#include <fuzz_mutation_testing.h>

#include "onnx_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace harmonics::inline in_models {
namespace {

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
                           {WireWriter().bytes(1, "then_branch").bytes(6, branch).text(),
                            WireWriter().bytes(1, "else_branch").bytes(6, branch).text()}),
                 onnx_node("Reshape", {"i", "to"}, {"f"}),
                 onnx_node("MatMul", {"f", "m"}, {"y"}),
                 onnx_node("Slice", {"y", "zero", "two", "two"}, {"z"}),
                 onnx_node("Transpose", {"m"}, {"t"}),
                 onnx_node("Softmax", {"y"}, {"p"})};
  parts.outputs = {onnx_value("p", {0, 3})};
  FuzzMutation mutation(
      1, {onnx_file(onnx_graph(parts))},
      {"Conv", "Reshape", "Slice", "Gather", "Expand", "Range", "axes", "pads", "MaxPool", "Concat",
       std::string("\xff\xff\xff\xff\x7f", 5), std::string(9, '\xff')});
  for (int round = 0; round < 20'000; ++round) {
    const std::string input = mutation.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace harmonics::inline in_models
