#include <harmonics/graph/graph.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

#include <error_testing.h>

namespace harmonics::inline in_graph {
namespace {

using testing::HasSubstr;

std::string build_error(const GraphBuilder& builder) {
  return error_of([&] { (void)builder.build(); });
}

// A graph of one layer over the given inputs x0, x1, …
HarmonicGraph one_layer(const std::string& type, const Attributes& attributes,
                        const std::vector<TensorSpec>& inputs) {
  GraphBuilder builder("one");
  std::vector<std::string> names;
  for (const TensorSpec& input : inputs) {
    names.push_back(format("x{}", names.size()));
    builder.producer(names.back(), input.shape, input.dtype);
  }
  return builder.layer("layer", type, attributes, names).build();
}

TensorSpec floats(Shape shape) { return {std::move(shape), DType::kFloat32}; }
Attribute whole(std::int64_t value) { return value; }

// --- every layer: what comes out, and how many numbers it trains ---

struct LayerCase {
  std::string type;
  Attributes attributes;
  std::vector<TensorSpec> inputs;
  Shape output;
  std::int64_t parameters;
};

std::vector<LayerCase> shape_cases() {
  return {
      {"linear", {{"out", whole(10)}}, {floats({64})}, {10}, 650},
      {"linear", {{"out", whole(10)}, {"bias", whole(0)}}, {floats({7, 64})}, {7, 10}, 640},
      {"linear", {}, {floats({5})}, {5}, 30},
      {"flatten", {}, {floats({3, 9, 8})}, {216}, 0},
      {"reshape", {{"shape", Shape{-1, 8}}}, {floats({3, 9, 8})}, {27, 8}, 0},
      {"concat", {{"axis", whole(1)}}, {floats({2, 3}), floats({2, 5})}, {2, 8}, 0},
      {"identity", {}, {floats({2, 3})}, {2, 3}, 0},
  };
}

std::vector<LayerCase> convolution_cases() {
  return {
      {"conv2d", {{"out", whole(8)}, {"kernel", whole(3)}}, {floats({3, 9, 7})}, {8, 7, 5}, 224},
      {"conv2d",
       {{"out", whole(6)},
        {"kernel", Shape{3, 1}},
        {"stride", whole(2)},
        {"padding", Shape{1, 0}},
        {"groups", whole(2)},
        {"bias", whole(0)}},
       {floats({4, 8, 8})},
       {6, 4, 4},
       36},
      {"conv2d",
       {{"out", whole(2)},
        {"kernel", whole(3)},
        {"dilation", Shape{2, 1}},
        {"padding", Shape{0, 1, 2, 3}}},
       {floats({1, 8, 8})},
       {2, 6, 10},
       20},
      {"conv1d",
       {{"out", whole(6)}, {"kernel", whole(3)}, {"stride", whole(2)}, {"padding", Shape{0, 1}}},
       {floats({4, 10})},
       {6, 5},
       78},
      {"conv_transpose2d",
       {{"out", whole(6)},
        {"kernel", whole(3)},
        {"stride", whole(2)},
        {"padding", whole(1)},
        {"output_padding", whole(1)},
        {"groups", whole(2)}},
       {floats({4, 5, 7})},
       {6, 10, 14},
       114},
  };
}

std::vector<LayerCase> norm_cases() {
  return {
      {"group_norm", {{"groups", whole(2)}}, {floats({4, 9, 8})}, {4, 9, 8}, 8},
      {"instance_norm", {}, {floats({4, 9})}, {4, 9}, 8},
      {"batch_norm", {}, {floats({3, 9, 8})}, {3, 9, 8}, 6},
      {"layer_norm", {}, {floats({7, 16})}, {7, 16}, 32},
      {"rms_norm", {}, {floats({7, 16})}, {7, 16}, 16},
      {"normalize", {}, {floats({16})}, {16}, 0},
      {"local_response_norm", {{"size", whole(3)}}, {floats({5, 2, 2})}, {5, 2, 2}, 0},
  };
}

std::vector<LayerCase> pool_cases() {
  return {
      {"max_pool", {{"kernel", whole(2)}}, {floats({3, 9, 8})}, {3, 4, 4}, 0},
      {"avg_pool",
       {{"kernel", whole(3)}, {"stride", whole(1)}, {"padding", whole(1)}},
       {floats({3, 8, 8})},
       {3, 8, 8},
       0},
      {"adaptive_avg_pool", {{"size", whole(1)}}, {floats({3, 9, 8})}, {3, 1, 1}, 0},
      {"adaptive_max_pool", {{"size", Shape{2, 3}}}, {floats({3, 9, 8})}, {3, 2, 3}, 0},
      {"resize",
       {{"size", whole(7)}, {"mode", std::string("linear")}},
       {floats({1, 4, 5})},
       {1, 7, 7},
       0},
      {"max_pool",
       {{"kernel", whole(2)}, {"round_up", whole(1)}},
       {floats({3, 5, 5})},
       {3, 3, 3},
       0},
      {"max_pool",
       {{"kernel", whole(3)},
        {"stride", whole(1)},
        {"padding", Shape{2, 0, 1, 0}},
        {"dilation", whole(2)}},
       {floats({3, 5, 5})},
       {3, 4, 1},
       0},
      {"avg_pool",
       {{"kernel", whole(3)}, {"padding", Shape{0, 1, 2, 1}}, {"count_padding", whole(0)}},
       {floats({3, 4, 4})},
       {3, 2, 2},
       0},
  };
}

std::vector<LayerCase> function_cases() {
  return {
      {"dropout", {{"p", 0.1}}, {floats({7})}, {7}, 0},
      {"function", {{"of", std::string("exp")}}, {floats({4})}, {4}, 0},
      {"function", {{"of", std::string("not")}}, {{{4}, DType::kBool}}, {4}, 0},
      {"clip", {{"min", 0.0}}, {floats({4})}, {4}, 0},
      {"hard_sigmoid", {}, {floats({4})}, {4}, 0},
      {"leaky_relu", {}, {floats({4})}, {4}, 0},
      {"elu", {}, {floats({4})}, {4}, 0},
      {"softmax", {{"axis", whole(0)}}, {floats({4, 2})}, {4, 2}, 0},
      {"cast", {{"to", std::string("int64")}}, {floats({4, 2})}, {4, 2}, 0},
  };
}

std::vector<LayerCase> token_cases() {
  return {
      {"embedding",
       {{"rows", whole(100)}, {"width", whole(16)}},
       {{{12}, DType::kInt64}},
       {12, 16},
       1600},
      {"attention", {{"heads", whole(4)}}, {floats({12, 16})}, {12, 16}, 1088},
      {"attention",
       {{"heads", whole(4)}, {"project", whole(0)}},
       {floats({12, 16})},
       {12, 16},
       816},
      {"attention",
       {{"heads", whole(4)}, {"separate", whole(1)}},
       {floats({12, 16})},
       {12, 16},
       1088},
      {"attention",
       {{"heads", whole(4)},
        {"separate", whole(1)},
        {"kv_heads", whole(2)},
        {"head_dim", whole(6)},
        {"bias", whole(0)},
        {"causal", whole(1)},
        {"window", whole(3)},
        {"rope", std::string("llama")}},
       {floats({12, 16}), {{12}, DType::kBool}},
       {12, 16},
       1168},
      {"attention",
       {{"heads", whole(4)},
        {"separate", whole(1)},
        {"head_dim", whole(6)},
        {"out_bias", whole(0)},
        {"project", whole(0)}},
       {floats({12, 16})},
       {12, 24},
       1224},
      {"attention",
       {{"heads", whole(4)}, {"scale", std::string("scores")}},
       {floats({12, 16}), {{12}, DType::kInt64}},
       {12, 16},
       1088},
      {"position", {{"rows", whole(40)}, {"offset", whole(2)}}, {floats({36, 16})}, {36, 16}, 640},
      {"select", {{"index", whole(-1)}}, {floats({36, 16})}, {16}, 0},
      {"mean", {}, {floats({36, 16}), {{36}, DType::kInt64}}, {16}, 0},
      {"tokens", {}, {floats({16, 7, 5})}, {35, 16}, 0},
      {"class_token", {}, {floats({35, 16})}, {36, 16}, 16},
      {"position", {}, {floats({36, 16})}, {36, 16}, 576},
      {"select", {{"index", whole(2)}}, {floats({36, 16})}, {16}, 0},
      {"mean", {}, {floats({36, 16})}, {16}, 0},
  };
}

std::vector<LayerCase> arithmetic_cases() {
  return {
      {"add", {}, {floats({4}), floats({4}), floats({4})}, {4}, 0},
      {"add", {}, {floats({2, 3}), floats({3}), floats({2, 1})}, {2, 3}, 0},
      {"add", {{"constant", Shape{2, 1}}, {"learned", whole(1)}}, {floats({3})}, {2, 3}, 2},
      {"sub", {}, {floats({4}), floats({4})}, {4}, 0},
      {"div", {}, {floats({4}), floats({1})}, {4}, 0},
      {"pow", {{"constant", Shape{}}}, {floats({4})}, {4}, 0},
      {"max", {}, {floats({4}), floats({4}), floats({4})}, {4}, 0},
      {"min", {{"constant", Shape{4}}}, {floats({2, 4})}, {2, 4}, 0},
      {"mul", {}, {floats({4}), floats({4})}, {4}, 0},
  };
}

std::vector<LayerCase> choice_cases() {
  return {
      {"compare", {{"op", std::string("less")}}, {floats({2, 4}), floats({4})}, {2, 4}, 0},
      {"compare",
       {{"op", std::string("equal")}, {"constant", Shape{}}},
       {{{4}, DType::kInt64}},
       {4},
       0},
      {"where", {}, {{{4}, DType::kBool}, floats({2, 4}), floats({1})}, {2, 4}, 0},
      {"constant",
       {{"shape", Shape{2, 3}}, {"dtype", std::string("int64")}},
       {floats({9})},
       {2, 3},
       0},
      {"weight", {{"shape", Shape{2, 3}}}, {}, {2, 3}, 6},
      {"expand", {{"shape", Shape{2, 1, 3}}}, {floats({4, 1})}, {2, 4, 3}, 0},
  };
}

std::vector<LayerCase> sum_cases() {
  return {
      {"reduce",
       {{"op", std::string("sum")}, {"axes", Shape{-1}}, {"keep", whole(0)}},
       {floats({2, 4})},
       {2},
       0},
      {"reduce", {{"op", std::string("max")}}, {floats({2, 4})}, {1, 1}, 0},
      {"matmul", {{"transpose_b", whole(1)}}, {floats({3, 2, 4}), floats({5, 4})}, {3, 2, 5}, 0},
  };
}

std::vector<LayerCase> move_cases() {
  return {
      {"transpose", {{"axes", Shape{2, 0, 1}}}, {floats({2, 3, 4})}, {4, 2, 3}, 0},
      {"slice", {{"begin", whole(1)}, {"step", whole(2)}}, {floats({7, 2})}, {3, 2}, 0},
      {"slice",
       {{"axis", whole(1)}, {"begin", whole(-1)}, {"step", whole(-3)}, {"count", whole(2)}},
       {floats({2, 7})},
       {2, 2},
       0},
      {"gather", {{"axis", whole(1)}}, {floats({2, 7}), {{3, 5}, DType::kInt32}}, {2, 3, 5}, 0},
      {"gather", {{"indices", Shape{0, -1}}}, {floats({7, 2})}, {2, 2}, 0},
      {"pad", {{"before", Shape{1, 0}}, {"after", Shape{0, 2}}}, {floats({2, 3})}, {3, 5}, 0},
  };
}

std::vector<LayerCase> recurrent_cases() {
  return {
      {"lstm", {{"width", whole(5)}, {"directions", whole(2)}}, {floats({9, 3})}, {9, 10}, 400},
      {"gru",
       {{"width", whole(5)}, {"bias", whole(0)}},
       {floats({9, 3}), floats({1, 5})},
       {9, 5},
       120},
  };
}

const std::vector<LayerCase>& layer_cases() {
  static const std::vector<LayerCase> kCases = [] {
    std::vector<LayerCase> all;
    for (auto* theme :
         {shape_cases, convolution_cases, norm_cases, pool_cases, function_cases, token_cases,
          arithmetic_cases, choice_cases, sum_cases, move_cases, recurrent_cases}) {
      for (LayerCase& item : theme()) all.push_back(std::move(item));
    }
    return all;
  }();
  return kCases;
}

class LayerShapes : public testing::TestWithParam<LayerCase> {};

TEST_P(LayerShapes, OutputAndParameters) {
  const LayerCase& c = GetParam();
  const HarmonicGraph graph = one_layer(c.type, c.attributes, c.inputs);
  EXPECT_EQ(graph.spec("layer").shape, c.output);
  EXPECT_EQ(graph.parameter_count(), c.parameters);
  EXPECT_GE(graph.layer_shape(0).flops, 0);
}

INSTANTIATE_TEST_SUITE_P(All, LayerShapes, testing::ValuesIn(layer_cases()), [](const auto& info) {
  return format("{}_{}", info.param.type, info.index);
});

TEST(LayerTable, HoldsEveryBuiltInType) {
  std::set<std::string> covered;
  for (const LayerCase& c : layer_cases()) covered.insert(c.type);
  for (const std::string& name : layer_type_names()) {
    if (name.starts_with("test_")) continue;  // registered below
    EXPECT_TRUE(covered.contains(name)) << "add a case for " << name;
  }
}

TEST(LayerTable, ActivationParametersBelongToTheLayer) {
  const HarmonicGraph graph =
      GraphBuilder("g").producer("x", Shape{4}).layer("h", "linear", {}, {"x"}, "prelu").build();
  EXPECT_EQ(graph.parameter_count(), 21);
  EXPECT_EQ(graph.layer_shape(0).parameters.back().name, "prelu.weight");
}

// --- what layers refuse: the message names the layer, what is wrong, and the input ---

struct RefusalCase {
  std::string type;
  Attributes attributes;
  std::vector<TensorSpec> inputs;
  std::string message;
};

class LayerRefusals : public testing::TestWithParam<RefusalCase> {};

TEST_P(LayerRefusals, NameLayerAndProblem) {
  const RefusalCase& c = GetParam();
  const std::string message = error_of([&] { (void)one_layer(c.type, c.attributes, c.inputs); });
  EXPECT_THAT(message, HasSubstr("layer 'layer'"));
  EXPECT_THAT(message, HasSubstr(c.message));
}

INSTANTIATE_TEST_SUITE_P(
    All, LayerRefusals,
    testing::Values(
        RefusalCase{"linear", {{"out", whole(0)}}, {floats({4})}, "'out' must be at least 1"},
        RefusalCase{
            "linear", {{"out", 2.5}}, {floats({4})}, "'out' must be a whole number, not 2.5"},
        RefusalCase{"linear", {{"out", whole(2)}}, {floats({})}, "at least one axis"},
        RefusalCase{"linear", {{"out", whole(2)}}, {{{4}, DType::kInt64}}, "floating-point"},
        RefusalCase{"linear",
                    {{"width", whole(2)}},
                    {floats({4})},
                    "unknown attribute 'width'; it takes: out, bias"},
        RefusalCase{"conv2d", {{"out", whole(2)}}, {floats({1, 8, 8})}, "'kernel' is missing"},
        RefusalCase{"conv2d",
                    {{"out", whole(2)}, {"kernel", whole(9)}},
                    {floats({1, 8, 8})},
                    "a window of 9 does not fit in 8"},
        RefusalCase{"conv2d",
                    {{"out", whole(2)}, {"kernel", whole(3)}},
                    {floats({8, 8})},
                    "{channels, height, width}; input is float32 {8, 8}"},
        RefusalCase{"conv2d",
                    {{"out", whole(3)}, {"kernel", whole(1)}, {"groups", whole(2)}},
                    {floats({4, 8, 8})},
                    "groups=2 must divide"},
        RefusalCase{"conv2d",
                    {{"out", whole(3)}, {"kernel", Shape{1, 2, 3}}},
                    {floats({4, 8, 8})},
                    "one or two numbers"},
        RefusalCase{"conv2d",
                    {{"out", whole(2)}, {"kernel", whole(3)}, {"dilation", whole(4)}},
                    {floats({1, 8, 8})},
                    "a window of 9 does not fit in 8"},
        RefusalCase{"conv2d",
                    {{"out", whole(2)}, {"kernel", whole(3)}, {"padding", Shape{0, 0, 0, -1}}},
                    {floats({1, 8, 8})},
                    "'padding' must be numbers of at least 0"},
        RefusalCase{"conv1d",
                    {{"out", whole(2)}, {"kernel", Shape{3, 3}}},
                    {floats({1, 8})},
                    "'kernel' must be one number"},
        RefusalCase{"conv_transpose2d",
                    {{"out", whole(2)}, {"kernel", whole(3)}, {"output_padding", whole(1)}},
                    {floats({1, 8, 8})},
                    "'output_padding' must be below"},
        RefusalCase{"conv_transpose2d",
                    {{"out", whole(2)}, {"kernel", whole(1)}, {"padding", whole(1)}},
                    {floats({1, 2, 2})},
                    "leaves nothing"},
        RefusalCase{"group_norm", {{"groups", whole(3)}}, {floats({4, 8})}, "groups=3 must divide"},
        RefusalCase{"instance_norm", {}, {floats({4})}, "{channels, …}"},
        RefusalCase{"max_pool",
                    {{"kernel", whole(2)}, {"padding", whole(2)}},
                    {floats({4, 8, 8})},
                    "half of the kernel"},
        RefusalCase{
            "reshape", {{"shape", Shape{5, -1}}}, {floats({8})}, "cannot be reshaped to {5, -1}"},
        RefusalCase{"reshape", {{"shape", Shape{-1, -1}}}, {floats({8})}, "cannot be reshaped"},
        RefusalCase{
            "reshape", {{"shape", std::string("flat")}}, {floats({8})}, "'shape' must be a list"},
        RefusalCase{"batch_norm", {}, {floats({8, 8})}, "{features} or {channels, height, width}"},
        RefusalCase{"dropout", {{"p", 1.0}}, {floats({8})}, "at least 0 and below 1"},
        RefusalCase{"dropout",
                    {{"p", std::string("half")}},
                    {floats({8})},
                    "'p' must be a number, not half"},
        RefusalCase{
            "dropout", {{"p", std::numeric_limits<double>::infinity()}}, {floats({8})}, "finite"},
        RefusalCase{
            "embedding", {{"rows", whole(9)}, {"width", whole(2)}}, {floats({8})}, "integer ids"},
        RefusalCase{"attention",
                    {{"heads", whole(3)}},
                    {floats({8, 16})},
                    "heads=3 must divide the width 16"},
        RefusalCase{"attention",
                    {{"heads", whole(4)}, {"kv_heads", whole(2)}},
                    {floats({8, 16})},
                    "'kv_heads' needs separate=true"},
        RefusalCase{"attention",
                    {{"heads", whole(4)}, {"separate", whole(1)}, {"kv_heads", whole(3)}},
                    {floats({8, 16})},
                    "kv_heads=3 must divide heads=4"},
        RefusalCase{"attention",
                    {{"heads", whole(4)}},
                    {floats({8, 16}), {{8}, DType::kInt64}},
                    "a mask needs separate=true or scale=scores"},
        RefusalCase{"attention",
                    {{"heads", whole(4)}, {"separate", whole(1)}},
                    {floats({8, 16}), floats({8})},
                    "the mask must be whole numbers or bool of shape {8}"},
        RefusalCase{"attention",
                    {{"heads", whole(4)}, {"separate", whole(1)}, {"window", whole(2)}},
                    {floats({8, 16})},
                    "needs causal=true"},
        RefusalCase{"attention",
                    {{"heads", whole(4)}, {"separate", whole(1)}, {"rope", std::string("yarn")}},
                    {floats({8, 16})},
                    "'rope' must be none, llama or neox, not yarn"},
        RefusalCase{"attention",
                    {{"heads", whole(4)}, {"separate", whole(1)}, {"rope_theta", 500.0}},
                    {floats({8, 16})},
                    "'rope_theta' needs rope=llama or rope=neox"},
        RefusalCase{"attention",
                    {{"heads", whole(4)},
                     {"separate", whole(1)},
                     {"rope", std::string("neox")},
                     {"rope_fraction", 0.25}},
                    {floats({8, 16})},
                    "1 of the 4 numbers of a head"},
        RefusalCase{"attention",
                    {{"heads", whole(4)},
                     {"separate", whole(1)},
                     {"rope", std::string("llama")},
                     {"rope_scaling", std::string("llama3")},
                     {"rope_factor", 8.0}},
                    {floats({8, 16})},
                    "'rope_low' is missing"},
        RefusalCase{"rms_norm", {{"eps", -1.0}}, {floats({8})}, "'eps' must be at least 0"},
        RefusalCase{"position",
                    {{"rows", whole(9)}, {"offset", whole(2)}},
                    {floats({8, 4})},
                    "rows=9 does not hold 8 places from offset=2 on"},
        RefusalCase{"position", {{"offset", whole(2)}}, {floats({8, 4})}, "'offset' needs 'rows'"},
        RefusalCase{"select", {{"index", whole(-9)}}, {floats({8})}, "index=-9 is outside"},
        RefusalCase{"mean",
                    {},
                    {floats({8, 4}), {{4}, DType::kInt64}},
                    "the mask must be whole numbers"},
        RefusalCase{
            "add", {{"constant", Shape{3}}}, {floats({8})}, "its constant {3} does not fit"},
        RefusalCase{"add",
                    {{"constant", Shape{8}}},
                    {floats({8}), floats({8})},
                    "takes 1 input with 'constant', it has 2"},
        RefusalCase{"sub",
                    {{"reverse", whole(1)}},
                    {floats({8}), floats({8})},
                    "'reverse' needs 'constant'"},
        RefusalCase{"compare",
                    {{"op", std::string("less")}},
                    {floats({8}), {{8}, DType::kInt64}},
                    "int64 {8} is not float32 {8}"},
        RefusalCase{"compare",
                    {{"op", std::string("like")}},
                    {floats({8}), floats({8})},
                    "'op' must be equal"},
        RefusalCase{
            "where", {}, {floats({8}), floats({8}), floats({8})}, "its condition must be bool"},
        RefusalCase{"expand", {{"shape", Shape{3}}}, {floats({8})}, "cannot be expanded to {3}"},
        RefusalCase{"function",
                    {{"of", std::string("sinh")}},
                    {floats({8})},
                    "'of' must be one of not, exp"},
        RefusalCase{
            "function", {{"of", std::string("not")}}, {floats({8})}, "'not' needs a bool input"},
        RefusalCase{"clip",
                    {{"min", 1.0}, {"max", 0.0}},
                    {floats({8})},
                    "'min' must not be above 'max'"},
        RefusalCase{"cast",
                    {{"to", std::string("float12")}},
                    {floats({8})},
                    "'to' must be a dtype such as float32, not float12"},
        RefusalCase{
            "reduce", {{"op", std::string("median")}}, {floats({8})}, "'op' must be one of sum"},
        RefusalCase{"reduce",
                    {{"op", std::string("sum")}, {"axes", Shape{1}}},
                    {floats({8})},
                    "axes=1 is not an axis"},
        RefusalCase{"matmul",
                    {},
                    {floats({2, 3}), floats({2, 3})},
                    "the matrices do not fit: {2, 3} and {2, 3}"},
        RefusalCase{"transpose",
                    {{"axes", Shape{0, 0}}},
                    {floats({2, 3})},
                    "'axes' must name each of the 2 axes once, not {0, 0}"},
        RefusalCase{"slice",
                    {{"begin", whole(3)}, {"count", whole(6)}},
                    {floats({8})},
                    "count=6 must be 1 to 5 from 3 on"},
        RefusalCase{"slice", {{"step", whole(0)}}, {floats({8})}, "step=0 goes nowhere"},
        RefusalCase{
            "gather", {{"indices", Shape{8}}}, {floats({8})}, "index 8 is outside an axis of 8"},
        RefusalCase{"gather", {}, {floats({8}), floats({8})}, "its indices must be whole numbers"},
        RefusalCase{"pad",
                    {{"before", Shape{1}}, {"after", Shape{1}}},
                    {floats({8, 8})},
                    "a number for each of 2 axes"},
        RefusalCase{
            "pad",
            {{"before", Shape{0, 8}}, {"after", Shape{0, 0}}, {"mode", std::string("reflect")}},
            {floats({8, 8})},
            "axis 1 can be padded by 0 to 7"},
        RefusalCase{"resize",
                    {{"size", whole(4)}, {"places", std::string("tf_crop_and_resize")}},
                    {floats({1, 8, 8})},
                    "'places' must be one of: half_pixel"},
        RefusalCase{"add", {}, {{{2}, DType::kBool}, {{2}, DType::kBool}}, "needs numbers"},
        RefusalCase{"add",
                    {{"constant", Shape{}}, {"learned", whole(1)}},
                    {{{2}, DType::kInt32}},
                    "only floating-point numbers can be learnt"},
        RefusalCase{"resize",
                    {{"size", whole(4)}, {"scale_y", 0.0}},
                    {floats({1, 8, 8})},
                    "'scale_y' must be a factor above 0"},
        RefusalCase{"avg_pool",
                    {{"kernel", whole(2)}, {"padding", Shape{0, 0, 2, 1}}},
                    {floats({4, 8, 8})},
                    "padding must be below the kernel"},
        RefusalCase{"lstm", {{"width", whole(0)}}, {floats({8, 8})}, "'width' must be at least 1"},
        RefusalCase{"lstm",
                    {{"width", whole(4)}},
                    {floats({8, 8}), floats({1, 4})},
                    "takes both start states or none"},
        RefusalCase{"gru",
                    {{"width", whole(4)}},
                    {floats({8, 8}), floats({4})},
                    "a start state must be float32 {1, 4}"},
        RefusalCase{"add", {}, {floats({8}), floats({9})}, "float32 {9} is not float32 {8}"},
        RefusalCase{"add", {}, {floats({8})}, "takes at least 2 inputs, it has 1"},
        RefusalCase{"flatten", {}, {floats({8}), floats({8})}, "takes 1 input, it has 2"},
        RefusalCase{
            "concat", {{"axis", whole(1)}}, {floats({8}), floats({8})}, "axis=1 is not an axis"},
        RefusalCase{"concat",
                    {{"axis", whole(0)}},
                    {floats({2, 3}), floats({2, 4})},
                    "agree outside axis 0"},
        RefusalCase{"select", {{"index", whole(8)}}, {floats({8})}, "index=8 is outside"},
        RefusalCase{
            "lineer", {}, {floats({8})}, "unknown type 'lineer'; there are: adaptive_avg_pool"}),
    [](const auto& info) { return format("{}_{}", info.param.type, info.index); });

// --- the graph ---

TEST(Graph, SortsLayersStably) {
  const HarmonicGraph graph = GraphBuilder("g")
                                  .producer("x", Shape{4})
                                  .layer("c", "add", {}, {"b", "a"})
                                  .layer("b", "linear", {}, {"x"})
                                  .layer("a", "linear", {}, {"x"})
                                  .build();
  ASSERT_EQ(graph.layers().size(), 3U);
  EXPECT_EQ(graph.layers()[0].name, "b");
  EXPECT_EQ(graph.layers()[1].name, "a");
  EXPECT_EQ(graph.layers()[2].name, "c");
  EXPECT_EQ(graph.layer_index("a"), 1U);
  EXPECT_EQ(graph.layer_index("x"), std::nullopt);
}

TEST(Graph, RefusesLoopsUnknownAndDoubleNames) {
  EXPECT_THAT(build_error(GraphBuilder("g")
                              .producer("x", Shape{4})
                              .layer("a", "add", {}, {"x", "b"})
                              .layer("b", "linear", {}, {"a"})),
              HasSubstr("depends on itself"));
  EXPECT_THAT(
      build_error(GraphBuilder("g").producer("x", Shape{4}).layer("a", "linear", {}, {"y"})),
      HasSubstr("'a' uses 'y', which is neither a producer nor a layer"));
  EXPECT_THAT(
      build_error(GraphBuilder("g").producer("x", Shape{4}).layer("x", "linear", {}, {"x"})),
      HasSubstr("'x' is used twice"));
  EXPECT_THAT(build_error(GraphBuilder("g").producer("1x", Shape{4})), HasSubstr("not valid"));
  EXPECT_THAT(
      build_error(
          GraphBuilder("g").producer("x", Shape{4}).layer("a", "linear", {}, {"x"}, "rely")),
      HasSubstr("unknown activation 'rely'; there are: gelu"));
  EXPECT_THAT(build_error(GraphBuilder("g").producer("x", Shape{4}).consumer("out", "nowhere")),
              HasSubstr("'out' uses 'nowhere'"));
}

TEST(Graph, LossesCheckPredictionAndTarget) {
  const auto with_tap = [](const std::string& loss, Shape prediction, Shape target, DType dtype) {
    GraphBuilder builder("g");
    builder.producer("p", std::move(prediction)).producer("t", std::move(target), dtype);
    return build_error(builder.tap(loss, "p", "t"));
  };
  EXPECT_EQ(with_tap("cross_entropy", {10}, {}, DType::kInt64), "no error");
  EXPECT_EQ(with_tap("cross_entropy", {10}, {1}, DType::kInt64), "no error");
  EXPECT_EQ(with_tap("cross_entropy", {7, 10}, {7}, DType::kInt32), "no error");
  EXPECT_EQ(with_tap("cross_entropy", {10}, {10}, DType::kFloat32), "no error");
  EXPECT_THAT(
      with_tap("cross_entropy", {10}, {3}, DType::kInt64),
      HasSubstr("cross_entropy of 'p' (float32 {10}) against 't' (int64 {3}): integer targets"));
  EXPECT_THAT(with_tap("cross_entropy", {10}, {1}, DType::kFloat32), HasSubstr("as int64"));
  EXPECT_THAT(with_tap("cross_entropy", {}, {}, DType::kInt64), HasSubstr("axis of classes"));
  EXPECT_THAT(with_tap("mse", {10}, {1}, DType::kFloat32), HasSubstr("shapes must be equal"));
  EXPECT_THAT(with_tap("bce", {10}, {10}, DType::kBool), HasSubstr("floating-point"));
  EXPECT_THAT(with_tap("mae", {10}, {10}, DType::kFloat32), HasSubstr("unknown loss 'mae'"));
}

TEST(Graph, TapWeightsMustBePositive) {
  for (const double weight : {0.0, -1.0, std::nan(""), 1e31}) {
    EXPECT_THAT(build_error(GraphBuilder("g")
                                .producer("p", Shape{2})
                                .producer("t", Shape{2})
                                .tap("mse", "p", "t", weight)),
                HasSubstr("weight of loss 'mse' on 'p'"));
  }
}

LayerNode dense(const std::string& name, Ratio ratio, const std::string& input) {
  LayerNode node;
  node.name = name;
  node.ratio = std::move(ratio);
  node.inputs = {input};
  return node;
}

TEST(Graph, RatioGivesTheWidth) {
  const HarmonicGraph graph = GraphBuilder("g")
                                  .producer("x", Shape{784})
                                  .add(dense("half", {1, 2, "x"}, "x"))
                                  .add(dense("third", {1, 3, "half"}, "half"))
                                  .build();
  EXPECT_EQ(graph.spec("half").shape, Shape{392});
  EXPECT_EQ(graph.spec("third").shape, Shape{130});
  EXPECT_EQ(std::get<std::int64_t>(graph.full_attributes(0).at("out")), 392);
}

TEST(Graph, ImpossibleRatiosAreErrors) {
  const auto with_ratio = [](Ratio ratio, Attributes attributes = {},
                             const std::string& type = "linear") {
    LayerNode node = dense("h", std::move(ratio), "x");
    node.attributes = std::move(attributes);
    node.type = type;
    return build_error(GraphBuilder("g").producer("x", Shape{4}).producer("s", Shape{}).add(node));
  };
  EXPECT_THAT(with_ratio({1, 5, "x"}), HasSubstr("width of 0"));
  EXPECT_THAT(with_ratio({1, 0, "x"}), HasSubstr("impossible ratio 1/0"));
  EXPECT_THAT(with_ratio({-1, 2, "x"}), HasSubstr("impossible ratio -1/2"));
  EXPECT_THAT(with_ratio({std::numeric_limits<std::int64_t>::max(), 1, "x"}),
              HasSubstr("impossible"));
  EXPECT_THAT(with_ratio({1, 1, "s"}), HasSubstr("impossible"));
  EXPECT_THAT(with_ratio({1, 2, "x"}, {{"out", whole(3)}}), HasSubstr("both a ratio and 'out'"));
  EXPECT_THAT(with_ratio({1, 2, "x"}, {}, "flatten"),
              HasSubstr("only a linear layer takes a ratio"));
}

TEST(Graph, TargetGivesTheWidthAndSaysSo) {
  const auto make = [](std::optional<Ratio> ratio) {
    LayerNode out;
    out.name = "out";
    out.inputs = {"x"};
    out.ratio = std::move(ratio);
    return GraphBuilder("g")
        .producer("x", Shape{64})
        .producer("y", Shape{10})
        .add(out)
        .tap("mse", "out", "y")
        .build();
  };
  EXPECT_EQ(make(std::nullopt).spec("out").shape, Shape{10});
  EXPECT_TRUE(make(std::nullopt).warnings().empty());
  const HarmonicGraph suggested = make(Ratio{1, 2, "x"});
  EXPECT_EQ(suggested.spec("out").shape, Shape{10});
  ASSERT_EQ(suggested.warnings().size(), 1U);
  EXPECT_THAT(suggested.warnings()[0], HasSubstr("width of 32, its target has 10; 10 is used"));
}

TEST(Graph, ConsumerShapeIsChecked) {
  ConsumerNode out;
  out.name = "out";
  out.input = "x";
  out.shape = Shape{5};
  EXPECT_THAT(build_error(GraphBuilder("g").producer("x", Shape{4}).add(out)),
              HasSubstr("consumer 'out' wants {5}, but 'x' has {4}"));
}

TEST(Graph, ResolvesWithTheDataThatIsBound) {
  const HarmonicGraph open = GraphBuilder("g")
                                 .producer("x")
                                 .producer("y", std::nullopt, DType::kInt64)
                                 .layer("h", "linear", {{"out", whole(3)}}, {"x"})
                                 .tap("cross_entropy", "h", "y")
                                 .build();
  EXPECT_FALSE(open.resolved());
  EXPECT_EQ(open.unresolved(), (std::vector<std::string>{"x", "y"}));
  EXPECT_THAT(error_of([&] { (void)open.spec("h"); }), HasSubstr("'x' is not known yet"));

  const HarmonicGraph half = open.resolved_with({{"x", floats({6})}});
  EXPECT_EQ(half.unresolved(), std::vector<std::string>{"y"});
  const HarmonicGraph full = half.resolved_with({{"y", {{}, DType::kInt64}}, {"x", floats({6})}});
  EXPECT_TRUE(full.resolved());
  EXPECT_EQ(full.spec("h").shape, Shape{3});
  EXPECT_THAT(error_of([&] { (void)full.spec("k"); }), HasSubstr("has no producer or layer 'k'"));

  EXPECT_THAT(error_of([&] {
                (void)open.resolved_with({{"z", floats({6})}});
              }),
              HasSubstr("no producer 'z'"));
  EXPECT_THAT(error_of([&] {
                (void)full.resolved_with({{"x", floats({7})}});
              }),
              HasSubstr("'x' is declared as float32 {6}, its data has float32 {7}"));
  EXPECT_THAT(error_of([&] {
                (void)open.resolved_with({{"y", floats({})}});
              }),
              HasSubstr("'y' is declared as int64 {}, its data has float32 {}"));
  EXPECT_EQ(open.resolved_with({{"x", {{6}, DType::kFloat64}}}).producers()[0].dtype,
            DType::kFloat64);
}

TEST(Graph, AttributesAreCheckedBeforeShapesAreKnown) {
  EXPECT_THAT(build_error(GraphBuilder("g").producer("x").layer("c", "conv2d", {}, {"x"})),
              HasSubstr("layer 'c' (conv2d): 'out' is missing"));
}

TEST(Names, UsersAndBoundaries) {
  for (const char* good : {"a", "_", "Block1.norm", "x_1"}) EXPECT_TRUE(is_user_name(good)) << good;
  for (const char* bad : {"", "1a", "a@1", "a-b", ".a", "a b", "é"})
    EXPECT_FALSE(is_user_name(bad)) << bad;
  for (const char* good : {"a@1", "a.b@12", "a@1@2"}) EXPECT_TRUE(is_boundary_name(good)) << good;
  for (const char* bad : {"a", "a@", "@1", "a@x", "a@@1"})
    EXPECT_FALSE(is_boundary_name(bad)) << bad;
}

// --- one's own layers, activations and losses ---

TEST(Registration, OwnLayerActivationAndLossAreUsed) {
  LayerType twice;
  twice.name = "test_twice";
  twice.attributes = {{"times", Attribute{std::int64_t{2}}, false}};
  twice.infer = [](const LayerQuery& q) {
    LayerShape shape{q.inputs[0], {}, 0};
    shape.output.shape.back() *= q.integer("times", 1);
    return shape;
  };
  register_layer_type(twice);
  register_activation_type({"test_swish", {{"beta", {1}, Init::kConstant, 1.0}}});
  register_loss_type({"test_loss", [](const TensorSpec& p, const TensorSpec& t) -> std::string {
                        return p == t ? "" : "they differ";
                      }});
  const auto make = [](Shape target) {
    return GraphBuilder("g")
        .producer("x", Shape{4})
        .producer("t", std::move(target))
        .layer("h", "test_twice", {{"times", whole(3)}}, {"x"}, "test_swish")
        .tap("test_loss", "h", "t")
        .build();
  };
  EXPECT_EQ(make({12}).spec("h").shape, Shape{12});
  EXPECT_EQ(make({12}).parameter_count(), 1);
  EXPECT_THAT(error_of([&] { (void)make({11}); }), HasSubstr("they differ"));
}

TEST(Registration, IncompleteTypesAreRefused) {
  EXPECT_THAT(error_of([] {
                register_layer_type({"test_none", {}, 1, 1, nullptr});
              }),
              HasSubstr("infer function"));
  EXPECT_THAT(error_of([] {
                register_layer_type({"bad name", {}, 1, 1, nullptr});
              }),
              HasSubstr("cannot name a layer type"));
  EXPECT_THAT(error_of([] {
                register_activation_type({"", {}});
              }),
              HasSubstr("cannot name an activation"));
  EXPECT_THAT(error_of([] {
                register_loss_type({"test_none", nullptr});
              }),
              HasSubstr("check function"));
}

// --- limits: the last that fits, and the first that does not ---

TEST(Limits, Nodes) {
  const auto chain = [](std::size_t layers) {
    GraphBuilder builder("g");
    builder.producer("x", Shape{1});
    for (std::size_t i = 0; i < layers; ++i) {
      builder.layer(format("h{}", i), "identity", {}, {i == 0 ? "x" : format("h{}", i - 1)});
    }
    return builder;
  };
  EXPECT_EQ(chain(kMaxGraphNodes - 1).build().layers().size(), kMaxGraphNodes - 1);
  EXPECT_THAT(build_error(chain(kMaxGraphNodes)), HasSubstr("more than 100000 nodes"));
}

TEST(Limits, InputsOfOneLayerAndOfAll) {
  const auto sums = [](std::size_t count, std::size_t inputs) {
    GraphBuilder builder("g");
    builder.producer("x", Shape{1});
    for (std::size_t i = 0; i < count; ++i) {
      builder.layer(format("h{}", i), "add", {}, std::vector<std::string>(inputs, "x"));
    }
    return build_error(builder);
  };
  EXPECT_EQ(sums(1, kMaxLayerInputs), "no error");
  EXPECT_THAT(sums(1, kMaxLayerInputs + 1), HasSubstr("1025 inputs; at most 1024"));
  EXPECT_EQ(sums(kMaxGraphEdges / 1'000, 1'000), "no error");
  EXPECT_THAT(sums(kMaxGraphEdges / 1'000 + 1, 1'000), HasSubstr("connections; at most 1000000"));
}

TEST(Limits, NamesTextsAndAxes) {
  const std::string longest(kMaxNameLength, 'a');
  EXPECT_TRUE(is_user_name(longest));
  EXPECT_FALSE(is_user_name(longest + "a"));
  EXPECT_TRUE(is_boundary_name(longest + "@1"));
  EXPECT_FALSE(is_boundary_name("a@" + std::string(kMaxBoundaryNameLength, '1')));
  EXPECT_EQ(build_error(GraphBuilder(longest)), "no error");
  EXPECT_THAT(build_error(GraphBuilder(longest + "a")), HasSubstr("may have 200 characters"));
  const auto grouped = [](std::string group) {
    return build_error(GraphBuilder("g")
                           .producer("x", Shape{1})
                           .group(std::move(group))
                           .layer("h", "identity", {}, {"x"}));
  };
  EXPECT_EQ(grouped(longest), "no error");
  EXPECT_THAT(grouped(longest + "a"), HasSubstr("its group's name"));
  const auto shaped = [](std::size_t axes) {
    return build_error(GraphBuilder("g").producer("x", Shape(axes, 1)));
  };
  EXPECT_EQ(shaped(kMaxShapeAxes), "no error");
  EXPECT_THAT(shaped(kMaxShapeAxes + 1), HasSubstr("producer 'x' has a tensor with 65 axes"));
  const std::string text(kMaxAttributeTextLength + 1, 't');
  EXPECT_THAT(error_of([&] {
                (void)one_layer("dropout", {{"p", text}}, {floats({1})});
              }),
              HasSubstr("at most 1000 characters"));
}

TEST(Limits, ElementsOfATensor) {
  const auto shaped = [](Shape shape) {
    return build_error(GraphBuilder("g").producer("x", std::move(shape)));
  };
  EXPECT_EQ(shaped({1 << 20, 1 << 20}), "no error");
  EXPECT_THAT(shaped({1 << 20, (1 << 20) + 1}),
              HasSubstr("producer 'x' has a tensor of shape {1048576, 1048577}"));
  EXPECT_THAT(shaped({4, 0}), HasSubstr("every axis must be positive"));
  EXPECT_THAT(shaped({-4}), HasSubstr("every axis must be positive"));
  // A parameter counts too: 2^30 inputs times 2^20 outputs.
  EXPECT_THAT(error_of([] {
                (void)one_layer("linear", {{"out", whole(1 << 20)}}, {floats({1 << 30})});
              }),
              HasSubstr("layer 'layer' (linear) has a tensor of shape {1048576, 1073741824}"));
  // Sizes that would overflow on the way are refused with the layer's name.
  EXPECT_THAT(
      error_of([] {
        (void)one_layer(
            "conv2d",
            {{"out", whole(1)}, {"kernel", whole(1'000'000)}, {"padding", whole(1'000'000)}},
            {floats({std::int64_t{1} << 40, 1, 1})});
      }),
      HasSubstr("layer 'layer' (conv2d)"));
}

}  // namespace
}  // namespace harmonics::inline in_graph
