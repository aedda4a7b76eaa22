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
  /// True where the numbers must be above 0.
  bool positive = false;

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

/// Pools whose windows reach beyond the image.
inline std::vector<LayerCase> wide_pool_cases() {
  return {
      {"max_pool of uneven padding",
       "max_pool",
       with({{"kernel", whole(3)}, {"padding", Shape{0, 1, 2, 1}}, {"dilation", Shape{1, 2}}}),
       {{2, 4, 5}},
       {},
       {},
       false},
      {"max_pool rounded up",
       "max_pool",
       with({{"kernel", whole(2)}, {"round_up", whole(1)}}),
       {{2, 5, 5}},
       {},
       {},
       false},
      {"avg_pool of uneven padding",
       "avg_pool",
       with({{"kernel", whole(3)},
             {"stride", whole(1)},
             {"padding", Shape{0, 1, 2, 1}},
             {"count_padding", whole(0)}}),
       {{2, 4, 4}},
       {},
       {},
       false},
      {"max_pool of uneven padding, rounded up",
       "max_pool",
       with({{"kernel", whole(3)},
             {"stride", whole(2)},
             {"padding", Shape{0, 1, 1, 0}},
             {"round_up", whole(1)}}),
       {{2, 5, 5}},
       {},
       {},
       false},
      {"avg_pool of uneven padding, rounded up",
       "avg_pool",
       with({{"kernel", whole(3)},
             {"stride", whole(2)},
             {"padding", Shape{0, 1, 1, 0}},
             {"round_up", whole(1)}}),
       {{2, 5, 5}},
       {},
       {},
       false},
      {"avg_pool that leaves padding out",
       "avg_pool",
       with({{"kernel", whole(3)},
             {"stride", whole(2)},
             {"padding", whole(1)},
             {"count_padding", whole(0)},
             {"round_up", whole(1)}}),
       {{2, 4, 4}},
       {},
       {},
       false},
  };
}

inline std::vector<LayerCase> resize_cases() {
  return {
      {"resize", "resize", with({{"size", Shape{4, 5}}}), {{2, 2, 3}}},
      {"resize, linear",
       "resize",
       with({{"size", Shape{5, 4}}, {"mode", word("linear")}}),
       {{2, 3, 3}}},
      {"resize, linear and asymmetric",
       "resize",
       with({{"size", Shape{5, 4}}, {"mode", word("linear")}, {"places", word("asymmetric")}}),
       {{2, 3, 3}}},
      {"resize, cubic",
       "resize",
       with({{"size", Shape{4, 5}}, {"mode", word("cubic")}, {"places", word("align_corners")}}),
       {{1, 3, 3}}},
      {"resize by a factor, antialiased",
       "resize",
       with({{"size", Shape{2, 3}},
             {"mode", word("linear")},
             {"scale_y", 0.6},
             {"antialias", whole(1)}}),
       {{1, 4, 4}}},
      {"resize, cubic, of what is inside",
       "resize",
       with({{"size", Shape{4, 5}},
             {"mode", word("cubic")},
             {"cubic", -0.5},
             {"inside_only", whole(1)}}),
       {{1, 3, 3}}},
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
      {"local_response_norm",
       "local_response_norm",
       with({{"size", whole(3)}, {"alpha", 0.5}}),
       {{5, 2, 2}}},
  };
}

inline std::vector<LayerCase> function_cases() {
  return {
      {"dropout", "dropout", with({{"p", 0.3}}), {{20}}},
      {"function exp", "function", with({{"of", word("exp")}}), {{5}}},
      {"function abs", "function", with({{"of", word("abs")}}), {{5}}},
      {"function neg", "function", with({{"of", word("neg")}}), {{5}}},
      {"function floor", "function", with({{"of", word("floor")}}), {{5}}},
      {"function ceil", "function", with({{"of", word("ceil")}}), {{5}}},
      {"function round", "function", with({{"of", word("round")}}), {{5}}},
      {"function erf", "function", with({{"of", word("erf")}}), {{5}}},
      {"function sin", "function", with({{"of", word("sin")}}), {{5}}},
      {"function cos", "function", with({{"of", word("cos")}}), {{5}}},
      {"function sign", "function", with({{"of", word("sign")}}), {{5}}},
      {"function softplus", "function", with({{"of", word("softplus")}}), {{5}}},
      {"function hard_swish", "function", with({{"of", word("hard_swish")}}), {{5}}},
      {"function mish", "function", with({{"of", word("mish")}}), {{5}}},
      {"function log", "function", with({{"of", word("log")}}), {{5}}, {}, {}, true, true},
      {"function sqrt", "function", with({{"of", word("sqrt")}}), {{5}}, {}, {}, true, true},
      {"function reciprocal",
       "function",
       with({{"of", word("reciprocal")}}),
       {{5}},
       {},
       {},
       true,
       true},
      {"clip", "clip", with({{"min", -0.5}, {"max", 0.7}}), {{6}}},
      {"clip from below", "clip", with({{"min", 0.1}}), {{6}}},
      {"hard_sigmoid", "hard_sigmoid", with({{"alpha", 0.4}}), {{6}}},
      {"leaky_relu", "leaky_relu", {}, {{6}}},
      {"elu", "elu", with({{"alpha", 0.7}}), {{6}}},
      {"softmax over channels", "softmax", with({{"axis", whole(0)}}), {{3, 2}}},
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
      {"add that broadcasts", "add", {}, {{2, 3}, {3}, {2, 1}}, {}, {}, false},
      {"add of a constant",
       "add",
       with({{"constant", Shape{2, 1}}, {"start", 0.5}}),
       {{3}},
       {},
       {},
       false},
      {"mul by what is learnt",
       "mul",
       with({{"constant", Shape{3}}, {"learned", whole(1)}}),
       {{2, 3}},
       {},
       {},
       false},
      {"sub", "sub", {}, {{2, 3}, {3}}},
      {"sub from what is learnt",
       "sub",
       with({{"constant", Shape{3}}, {"reverse", whole(1)}, {"learned", whole(1)}}),
       {{2, 3}}},
      {"div", "div", {}, {{3}, {2, 3}}, {}, {}, true, true},
      {"div of a constant",
       "div",
       with({{"constant", Shape{}}, {"reverse", whole(1)}}),
       {{2, 3}},
       {},
       {},
       true,
       true},
      {"pow", "pow", {}, {{2, 3}, {3}}, {}, {}, true, true},
      {"pow by what is learnt",
       "pow",
       with({{"constant", Shape{1}}, {"start", 1.5}, {"learned", whole(1)}}),
       {{4}},
       {},
       {},
       true,
       true},
      {"max", "max", {}, {{2, 3}, {3}, {2, 1}}},
      {"min with a constant", "min", with({{"constant", Shape{}}}), {{2, 3}}},
  };
}

inline std::vector<LayerCase> choice_cases() {
  return {
      {"where", "where", {}, {{2, 3}, {3}, {2, 3}}, {}, {2, 0, 0}, true},
      {"expand", "expand", with({{"shape", Shape{2, 1, 3}}}), {{2, 1}}},
  };
}

inline std::vector<LayerCase> sum_cases() {
  return {
      {"reduce by sum",
       "reduce",
       with({{"op", word("sum")}, {"axes", Shape{0, -1}}, {"keep", whole(0)}}),
       {{2, 3, 2}}},
      {"reduce by mean",
       "reduce",
       with({{"op", word("mean")}, {"axes", Shape{0, -1}}, {"keep", whole(0)}}),
       {{2, 3, 2}}},
      {"reduce by max",
       "reduce",
       with({{"op", word("max")}, {"axes", Shape{0, -1}}, {"keep", whole(0)}}),
       {{2, 3, 2}}},
      {"reduce by min",
       "reduce",
       with({{"op", word("min")}, {"axes", Shape{0, -1}}, {"keep", whole(0)}}),
       {{2, 3, 2}}},
      {"reduce by prod",
       "reduce",
       with({{"op", word("prod")}, {"axes", Shape{0, -1}}, {"keep", whole(0)}}),
       {{2, 3, 2}}},
      {"reduce by l2",
       "reduce",
       with({{"op", word("l2")}, {"axes", Shape{0, -1}}, {"keep", whole(0)}}),
       {{2, 3, 2}}},
      {"reduce by log_sum_exp",
       "reduce",
       with({{"op", word("log_sum_exp")}, {"axes", Shape{0, -1}}, {"keep", whole(0)}}),
       {{2, 3, 2}}},
      {"reduce of everything", "reduce", with({{"op", word("sum")}}), {{2, 3}}},
      {"matmul", "matmul", {}, {{3, 2, 4}, {4, 3}}},
      {"matmul of transposed",
       "matmul",
       with({{"transpose_a", whole(1)}, {"transpose_b", whole(1)}}),
       {{4, 2}, {3, 4}}},
  };
}

inline std::vector<LayerCase> move_cases() {
  return {
      {"transpose", "transpose", with({{"axes", Shape{2, 0, 1}}}), {{2, 3, 4}}},
      {"slice",
       "slice",
       with({{"axis", whole(-1)}, {"begin", whole(1)}, {"count", whole(2)}, {"step", whole(2)}}),
       {{2, 6}}},
      {"slice backwards", "slice", with({{"begin", whole(-2)}, {"step", whole(-2)}}), {{5, 2}}},
      {"gather", "gather", with({{"axis", whole(1)}}), {{2, 4, 3}, {2, 2}}, {}, {0, 4}, true},
      {"gather of named rows", "gather", with({{"indices", Shape{2, 0, -1, 2}}}), {{4, 3}}},
      {"pad",
       "pad",
       with({{"before", Shape{1, 0}}, {"after", Shape{0, 2}}, {"value", 0.5}}),
       {{2, 3}}},
      {"pad by reflection",
       "pad",
       with({{"before", Shape{0, 1, 2}}, {"after", Shape{0, 0, 1}}, {"mode", word("reflect")}}),
       {{2, 3, 4}}},
      {"pad by edges",
       "pad",
       with({{"before", Shape{0, 2}}, {"after", Shape{0, 1}}, {"mode", word("edge")}}),
       {{2, 3}}},
      {"pad by the other end",
       "pad",
       with({{"before", Shape{0, 2}}, {"after", Shape{0, 4}}, {"mode", word("wrap")}}),
       {{2, 3}}},
  };
}

inline std::vector<LayerCase> recurrent_cases() {
  return {
      {"lstm", "lstm", with({{"width", whole(3)}}), {{4, 2}}},
      {"lstm both ways from given states",
       "lstm",
       with({{"width", whole(2)}, {"directions", whole(2)}, {"bias", whole(0)}}),
       {{3, 2}, {2, 2}, {2, 2}}},
      {"lstm with its states",
       "lstm",
       with({{"width", whole(2)}, {"directions", whole(2)}, {"states", whole(1)}}),
       {{3, 2}}},
      {"gru that resets first, with its state",
       "gru",
       with({{"width", whole(2)}, {"linear_before_reset", whole(0)}, {"states", whole(1)}}),
       {{3, 2}}},
      {"gru backwards",
       "gru",
       with({{"width", whole(3)}, {"reverse", whole(1)}}),
       {{4, 2}, {1, 3}}},
      {"gru that resets first",
       "gru",
       with({{"width", whole(2)}, {"directions", whole(2)}, {"linear_before_reset", whole(0)}}),
       {{3, 2}}},
  };
}

/// All layers but embedding, which takes ids, and compare, cast and constant, whose gradients have
/// a test of their own.
inline std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> cases;
  for (auto* theme : {shape_cases, convolution_cases, pool_cases, wide_pool_cases, resize_cases,
                      norm_cases, function_cases, token_cases, arithmetic_cases, choice_cases,
                      sum_cases, move_cases, recurrent_cases, attention_cases}) {
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
