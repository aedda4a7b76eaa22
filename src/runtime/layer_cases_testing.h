// One case or more for every layer that ships: what gradient checks and the backends' contract run.
#pragma once

#include <string>
#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

struct LayerCase {
  std::string label;
  std::string type;
  Attributes attributes;
  std::vector<Shape> inputs;
  std::string activation = {};
  /// Per input: 0 for random numbers, n for whole numbers below n (int64). Empty: all numbers.
  std::vector<std::int64_t> ids = {};
  /// False where an OpenCL device leaves this form of the layer to the CPU.
  bool native = true;

  [[nodiscard]] std::int64_t ids_below(std::size_t input) const {
    return ids.empty() ? 0 : ids[input];
  }
};

inline Attributes with(std::initializer_list<std::pair<const std::string, Attribute>> items) {
  return Attributes(items);
}
inline Attribute whole(std::int64_t value) { return value; }
inline Attribute word(std::string value) { return value; }

/// Attention with scaled scores in its many forms, over {length, width}.
inline std::vector<LayerCase> attention_cases() {
  const auto form = [](std::string label, Attributes attributes, bool masked = false) {
    attributes.emplace("heads", whole(4));
    LayerCase item{std::move(label), "attention", std::move(attributes), {{5, 8}}, {}, {}, false};
    if (masked) item.inputs = {{5, 8}, {5}}, item.ids = {0, 2};
    return item;
  };
  return {
      form("attention with separate parameters", with({{"separate", whole(1)}})),
      form("attention with a mask", with({{"separate", whole(1)}}), true),
      form("joined attention that scales its scores",
           with({{"scale", word("scores")}, {"causal", whole(1)}}), true),
      form("grouped attention without biases", with({{"separate", whole(1)},
                                                     {"kv_heads", whole(2)},
                                                     {"head_dim", whole(3)},
                                                     {"bias", whole(0)},
                                                     {"out_bias", whole(0)}})),
      form("attention with a window, without projection", with({{"separate", whole(1)},
                                                                {"causal", whole(1)},
                                                                {"window", whole(2)},
                                                                {"project", whole(0)}})),
      form("attention as in Llama",
           with({{"separate", whole(1)},
                 {"causal", whole(1)},
                 {"kv_heads", whole(1)},
                 {"head_dim", whole(4)},
                 {"bias", whole(0)},
                 {"rope", word("llama")},
                 {"rope_theta", 100.0},
                 {"rope_scaling", word("llama3")},
                 {"rope_factor", 8.0},
                 {"rope_low", 1.0},
                 {"rope_high", 4.0},
                 {"rope_original", 16.0}}),
           true),
      form("attention as in GPT-NeoX", with({{"separate", whole(1)},
                                             {"head_dim", whole(4)},
                                             {"rope", word("neox")},
                                             {"rope_fraction", 0.5},
                                             {"rope_scaling", word("linear")},
                                             {"rope_factor", 2.0}})),
  };
}

// By theme, for layer_cases.
inline std::vector<LayerCase> shape_cases() {
  return {
      {"linear", "linear", with({{"out", whole(4)}}), {{5}}},
      {"linear without bias, on tokens",
       "linear",
       with({{"out", whole(2)}, {"bias", whole(0)}}),
       {{3, 4}}},
      {"flatten", "flatten", {}, {{2, 3}}},
      {"reshape", "reshape", with({{"shape", Shape{3, 4}}}), {{2, 6}}},
      {"concat", "concat", with({{"axis", whole(1)}}), {{2, 3}, {2, 1}}},
      {"identity", "identity", {}, {{4}}},
  };
}

inline std::vector<LayerCase> convolution_cases() {
  return {
      {"conv2d",
       "conv2d",
       with({{"out", whole(3)}, {"kernel", whole(3)}, {"padding", whole(1)}}),
       {{2, 5, 5}}},
      {"conv2d with stride and groups",
       "conv2d",
       with({{"out", whole(4)},
             {"kernel", Shape{2, 3}},
             {"stride", whole(2)},
             {"groups", whole(2)},
             {"bias", whole(0)}}),
       {{2, 6, 7}}},
      {"conv2d with dilation and uneven padding",
       "conv2d",
       with({{"out", whole(2)},
             {"kernel", Shape{2, 3}},
             {"dilation", Shape{2, 1}},
             {"padding", Shape{1, 0, 2, 1}}}),
       {{2, 4, 5}},
       {},
       {},
       false},
      {"conv2d with even padding of four sides",
       "conv2d",
       with({{"out", whole(2)}, {"kernel", whole(3)}, {"padding", Shape{1, 0, 1, 0}}}),
       {{2, 4, 5}},
       {},
       {},
       false},
      {"conv1d",
       "conv1d",
       with({{"out", whole(4)},
             {"kernel", whole(3)},
             {"stride", whole(2)},
             {"padding", Shape{1, 0}},
             {"groups", whole(2)},
             {"dilation", whole(2)}}),
       {{2, 8}}},
      {"conv_transpose2d",
       "conv_transpose2d",
       with({{"out", whole(4)},
             {"kernel", Shape{3, 2}},
             {"stride", Shape{2, 1}},
             {"padding", Shape{1, 0}},
             {"output_padding", Shape{1, 0}},
             {"groups", whole(2)}}),
       {{2, 3, 4}}},
      {"conv_transpose2d with uneven padding",
       "conv_transpose2d",
       with({{"out", whole(2)},
             {"kernel", whole(3)},
             {"stride", whole(2)},
             {"padding", Shape{0, 1, 2, 0}},
             {"dilation", whole(2)},
             {"bias", whole(0)}}),
       {{2, 3, 3}}},
  };
}

inline std::vector<LayerCase> pool_cases() {
  return {
      {"max_pool", "max_pool", with({{"kernel", whole(2)}}), {{2, 4, 6}}},
      {"avg_pool",
       "avg_pool",
       with({{"kernel", whole(3)}, {"stride", whole(2)}, {"padding", whole(1)}}),
       {{2, 5, 5}}},
      {"adaptive_avg_pool", "adaptive_avg_pool", with({{"size", whole(2)}}), {{2, 5, 5}}},
      {"adaptive_max_pool", "adaptive_max_pool", with({{"size", Shape{2, 1}}}), {{2, 5, 5}}},
  };
}

inline std::vector<LayerCase> norm_cases() {
  return {
      {"batch_norm of features", "batch_norm", {}, {{4}}},
      {"batch_norm of images", "batch_norm", {}, {{2, 3, 3}}},
      {"layer_norm", "layer_norm", {}, {{3, 5}}},
      {"group_norm", "group_norm", with({{"groups", whole(2)}}), {{4, 3, 2}}},
      {"instance_norm", "instance_norm", {}, {{3, 4, 2}}},
      {"rms_norm", "rms_norm", {}, {{3, 5}}, {}, {}, false},
      {"normalize", "normalize", {}, {{3, 5}}, {}, {}, false},
  };
}

inline std::vector<LayerCase> function_cases() {
  return {
      {"dropout", "dropout", with({{"p", 0.3}}), {{20}}},
  };
}

inline std::vector<LayerCase> token_cases() {
  return {
      {"attention", "attention", with({{"heads", whole(2)}}), {{4, 6}}},
      {"causal attention without projection",
       "attention",
       with({{"heads", whole(3)}, {"causal", whole(1)}, {"project", whole(0)}}),
       {{4, 6}}},
      {"tokens", "tokens", {}, {{3, 2, 2}}},
      {"class_token", "class_token", {}, {{3, 4}}},
      {"position", "position", {}, {{3, 4}}},
      {"position in a longer table",
       "position",
       with({{"rows", whole(9)}, {"offset", whole(2)}}),
       {{3, 4}},
       {},
       {},
       false},
      {"select", "select", with({{"index", whole(1)}}), {{3, 4}}},
      {"select of the last", "select", with({{"index", whole(-1)}}), {{3, 4}}},
      {"mean", "mean", {}, {{3, 4}}},
      {"mean of rows that count", "mean", {}, {{5, 4}, {5}}, {}, {0, 2}, false},
  };
}

inline std::vector<LayerCase> arithmetic_cases() {
  return {
      {"add", "add", {}, {{4}, {4}, {4}}},
      {"mul", "mul", {}, {{4}, {4}, {4}}},
  };
}

/// All layers but embedding, which takes ids.
inline std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> cases;
  for (auto* theme : {shape_cases, convolution_cases, pool_cases, norm_cases, function_cases,
                      token_cases, arithmetic_cases, attention_cases}) {
    for (LayerCase& item : theme()) cases.push_back(std::move(item));
  }
  return cases;
}

/// More of what windows and groups can be, for backends that compute them by hand.
inline std::vector<LayerCase> window_cases() {
  return {
      {"conv2d with stride, padding, groups and bias",
       "conv2d",
       with({{"out", whole(6)},
             {"kernel", Shape{3, 2}},
             {"stride", Shape{2, 1}},
             {"padding", Shape{1, 0}},
             {"groups", whole(2)}}),
       {{4, 7, 6}}},
      {"conv2d by depth",
       "conv2d",
       with({{"out", whole(3)}, {"kernel", whole(3)}, {"groups", whole(3)}}),
       {{3, 5, 5}}},
      {"conv2d of one pixel",
       "conv2d",
       with({{"out", whole(5)}, {"kernel", whole(1)}, {"stride", whole(2)}}),
       {{3, 5, 4}}},
      {"max_pool with overlap",
       "max_pool",
       with({{"kernel", whole(3)}, {"stride", Shape{1, 2}}, {"padding", whole(1)}}),
       {{2, 5, 6}}},
      {"avg_pool of unequal sides", "avg_pool", with({{"kernel", Shape{2, 3}}}), {{2, 5, 7}}},
      {"adaptive_avg_pool that overlaps",
       "adaptive_avg_pool",
       with({{"size", whole(3)}}),
       {{2, 5, 4}}},
      {"concat of channels", "concat", {}, {{2, 3, 3}, {1, 3, 3}, {3, 3, 3}}},
      {"select of rows of images", "select", with({{"index", whole(0)}}), {{2, 3, 4}}},
  };
}

}  // namespace harmonics::inline in_runtime
