// What layers compute, against numbers worked out by hand and plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <harmonics/base/format.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/stage.h>

#include "layer_cases_testing.h"

namespace harmonics::inline in_runtime {
namespace {

using Numbers = std::vector<float>;

struct Values {
  Shape shape;
  Numbers numbers;
  bool ids = false;
};

/// One sample through one layer. `parameters` replace those of the layer, by name.
Tensor computed(const std::string& type, const Attributes& attributes,
                const std::vector<Values>& inputs,
                const std::map<std::string, Tensor>& parameters = {}) {
  GraphBuilder builder("values");
  std::vector<std::string> names;
  NamedTensors batch;
  for (const Values& input : inputs) {
    const std::string name = format("x{}", names.size());
    builder.producer(name, input.shape, input.ids ? DType::kInt64 : DType::kFloat32);
    Shape shape = input.shape;
    shape.insert(shape.begin(), 1);
    Tensor value = Tensor::empty(shape, DType::kFloat32);
    std::ranges::copy(input.numbers, value.mutable_values<float>().begin());
    batch[name] = input.ids ? convert_tensor(value, DType::kInt64) : value;
    names.push_back(name);
  }
  builder.layer("layer", type, attributes, names).consumer("out", "layer");
  Stage stage(builder.build(), {});
  NamedTensors weights;
  for (const auto& [name, value] : stage->parameters()) weights[name] = value;
  for (const auto& [name, value] : parameters) weights["layer." + name] = value;
  stage->set_parameters(weights);
  return convert_tensor(stage->infer(batch).at("out"), DType::kFloat32);
}

void expect_values(const Tensor& got, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(static_cast<std::size_t>(got.size()), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(got.values<float>()[i], expected[i], 1e-5) << what << " element " << i;
  }
}

struct Worked {
  std::string type;
  Attributes attributes;
  std::vector<Values> inputs;
  Numbers expected;
};

const Values kSix = {{2, 3}, {1, 2, 3, 4, 5, 6}};
const Values kRow = {{3}, {10, 20, 30}};

std::vector<Worked> worked_arithmetic() {
  return {
      {"add", {}, {kSix, kRow, {{2, 1}, {100, 200}}}, {111, 122, 133, 214, 225, 236}},
      {"sub", {}, {kRow, kSix}, {9, 18, 27, 6, 15, 24}},
      {"mul", {}, {kSix, {{}, {2}}}, {2, 4, 6, 8, 10, 12}},
      {"div", {}, {kRow, kSix}, {10, 10, 10, 2.5, 4, 5}},
      {"pow", {}, {kSix, {{3}, {2, 1, 0}}}, {1, 2, 1, 16, 5, 1}},
      {"max", {}, {kSix, {{3}, {2, 2, 5}}}, {2, 2, 5, 4, 5, 6}},
      {"min", {}, {kSix, {{3}, {2, 2, 5}}}, {1, 2, 3, 2, 2, 5}},
      {"mul", with({{"constant", Shape{3}}}), {kSix}, {1, 2, 3, 4, 5, 6}},
      {"div", with({{"constant", Shape{}}, {"reverse", whole(1)}}), {{{2}, {2, 4}}}, {0.5, 0.25}},
      {"add",
       with({{"constant", Shape{3}}, {"start", 0.5}}),
       {kSix},
       {1.5, 2.5, 3.5, 4.5, 5.5, 6.5}},
      {"compare",
       with({{"op", word("equal")}, {"constant", Shape{}}, {"start", 3.0}}),
       {kSix},
       {0, 0, 1, 0, 0, 0}},
      {"compare", with({{"op", word("not_equal")}}), {kSix, {{3}, {1, 5, 3}}}, {0, 1, 0, 1, 0, 1}},
      {"compare", with({{"op", word("less")}}), {kSix, {{3}, {1, 5, 4}}}, {0, 1, 1, 0, 0, 0}},
      {"compare",
       with({{"op", word("less_or_equal")}}),
       {kSix, {{3}, {1, 5, 4}}},
       {1, 1, 1, 0, 1, 0}},
      {"compare", with({{"op", word("greater")}}), {kSix, {{2, 1}, {2, 5}}}, {0, 0, 1, 0, 0, 1}},
      {"compare",
       with({{"op", word("greater_or_equal")}}),
       {kSix, {{2, 1}, {2, 5}}},
       {0, 1, 1, 0, 1, 1}},
      {"where", {}, {{{3}, {1, 0, 2}, true}, kSix, kRow}, {1, 20, 3, 4, 20, 6}},
      {"where", {}, {{{2, 1}, {0, 1}, true}, kSix, {{1}, {-1}}}, {-1, -1, -1, 4, 5, 6}},
      // Whole numbers stay whole.
      {"div", {}, {{{4}, {7, -7, 9, 8}, true}, {{}, {2}, true}}, {3, -3, 4, 4}},
      {"add", {}, {{{2}, {1, 2}, true}, {{2}, {3, 4}, true}}, {4, 6}},
      {"clip", with({{"min", 2.0}, {"max", 3.0}}), {{{3}, {1, 2, 9}, true}}, {2, 2, 3}},
      {"function", with({{"of", word("abs")}}), {{{2}, {-4, 3}, true}}, {4, 3}},
      {"reduce", with({{"op", word("max")}}), {{{3}, {1, 9, 4}, true}}, {9}},
      {"constant",
       with({{"shape", Shape{2}}, {"start", 7.0}, {"dtype", word("int64")}}),
       {kSix},
       {7, 7}},
      {"expand", with({{"shape", Shape{2, 1, 2}}}), {{{2, 1}, {1, 2}}}, {1, 1, 2, 2, 1, 1, 2, 2}},
      {"cast", with({{"to", word("int64")}}), {{{3}, {1.5f, -1.5f, 0.9f}}}, {1, -1, 0}},
      {"cast", with({{"to", word("bool")}}), {{{3}, {1.5f, -1.5f, 0}}}, {1, 1, 0}},
      {"clip", with({{"min", 2.0}, {"max", 4.0}}), {kSix}, {2, 2, 3, 4, 4, 4}},
      {"clip", with({{"max", 4.0}}), {kSix}, {1, 2, 3, 4, 4, 4}},
      {"hard_sigmoid", {}, {{{4}, {-5, -1, 0, 5}}}, {0, 0.3f, 0.5f, 1}},
      {"leaky_relu", with({{"slope", 0.5}}), {{{2}, {-2, 3}}}, {-1, 3}},
      {"elu", with({{"alpha", 2.0}}), {{{2}, {-1, 3}}}, {2 * (std::exp(-1.0f) - 1), 3}},
      {"softmax", with({{"axis", whole(0)}}), {{{2, 2}, {0, 1, 0, 1}}}, {0.5f, 0.5f, 0.5f, 0.5f}},
  };
}

std::vector<Worked> worked_functions() {
  const Values x = {{3}, {0.5f, 1, 2.5f}};
  const auto of = [&](const std::string& name, Numbers expected) {
    return Worked{"function", with({{"of", word(name)}}), {x}, std::move(expected)};
  };
  const auto all = [&](float (*function)(float)) {
    return Numbers{function(0.5f), function(1.0f), function(2.5f)};
  };
  return {
      of("exp", all(std::exp)),
      of("log", all(std::log)),
      of("sqrt", all(std::sqrt)),
      of("abs", {0.5f, 1, 2.5f}),
      of("neg", {-0.5f, -1, -2.5f}),
      of("reciprocal", {2, 1, 0.4f}),
      of("floor", {0, 1, 2}),
      of("ceil", {1, 1, 3}),
      of("round", {0, 1, 2}),  // to the even one
      of("erf", all(std::erf)),
      of("sin", all(std::sin)),
      of("cos", all(std::cos)),
      of("sign", {1, 1, 1}),
      of("softplus", {0.974077f, 1.313262f, 2.578890f}),
      of("hard_swish", {0.2916667f, 0.6666667f, 2.2916667f}),
      of("mish", {0.375245f, 0.865098f, 2.471392f}),
  };
}

std::vector<Worked> worked_sums() {
  const auto reduced = [](const std::string& op, Numbers expected) {
    return Worked{"reduce",
                  with({{"op", word(op)}, {"axes", Shape{0}}, {"keep", whole(0)}}),
                  {kSix},
                  expected};
  };
  return {
      reduced("sum", {5, 7, 9}),
      reduced("mean", {2.5, 3.5, 4.5}),
      reduced("max", {4, 5, 6}),
      reduced("min", {1, 2, 3}),
      reduced("prod", {4, 10, 18}),
      reduced("l2", {std::sqrt(17.0f), std::sqrt(29.0f), std::sqrt(45.0f)}),
      reduced("log_sum_exp", {4.0485873f, 5.0485873f, 6.0485873f}),
      {"reduce", with({{"op", word("prod")}}), {kSix}, {720}},
      {"matmul", {}, {kSix, {{3, 1}, {1, 2, 3}}}, {14, 32}},
      {"matmul", with({{"transpose_a", whole(1)}}), {kSix, {{2, 1}, {1, 2}}}, {9, 12, 15}},
      {"matmul",
       with({{"transpose_b", whole(1)}}),
       {{{2, 1, 2}, {1, 2, 3, 4}}, {{1, 2}, {10, 100}}},
       {210, 430}},
  };
}

std::vector<Worked> worked_moves() {
  return {
      {"transpose", with({{"axes", Shape{1, 0}}}), {kSix}, {1, 4, 2, 5, 3, 6}},
      {"slice", with({{"axis", whole(-1)}, {"begin", whole(1)}}), {kSix}, {2, 3, 5, 6}},
      {"slice", with({{"axis", whole(1)}, {"step", whole(2)}}), {kSix}, {1, 3, 4, 6}},
      {"slice",
       with({{"axis", whole(1)}, {"begin", whole(-1)}, {"step", whole(-1)}, {"count", whole(2)}}),
       {kSix},
       {3, 2, 6, 5}},
      {"gather", with({{"indices", Shape{-1, 0}}, {"axis", whole(1)}}), {kSix}, {3, 1, 6, 4}},
      {"gather", {}, {kSix, {{3}, {1, -2, 1}, true}}, {4, 5, 6, 1, 2, 3, 4, 5, 6}},
      {"gather",
       with({{"axis", whole(1)}}),
       {kSix, {{2, 2}, {0, 1, 2, 0}, true}},
       {1, 2, 3, 1, 4, 5, 6, 4}},
      {"pad",
       with({{"before", Shape{0, 1}}, {"after", Shape{1, 0}}, {"value", 9.0}}),
       {kSix},
       {9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9}},
      {"pad",
       with({{"before", Shape{0, 2}}, {"after", Shape{0, 1}}, {"mode", word("reflect")}}),
       {kSix},
       {3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5}},
      {"pad",
       with({{"before", Shape{0, 1}}, {"after", Shape{0, 1}}, {"mode", word("edge")}}),
       {kSix},
       {1, 1, 2, 3, 3, 4, 4, 5, 6, 6}},
  };
}

std::vector<Worked> worked_resizes() {
  return {
      {"resize", with({{"size", Shape{1, 4}}}), {{{1, 1, 2}, {1, 2}}}, {1, 1, 2, 2}},
      {"resize",
       with({{"size", Shape{1, 2}}, {"places", word("asymmetric")}, {"rounding", word("ceil")}}),
       {{{1, 1, 3}, {1, 2, 3}}},
       {1, 3}},
      {"resize",
       with({{"size", Shape{1, 2}}, {"places", word("asymmetric")}, {"rounding", word("floor")}}),
       {{{1, 1, 3}, {1, 2, 3}}},
       {1, 2}},
      {"resize",
       with({{"size", Shape{1, 4}}, {"mode", word("linear")}}),
       {{{1, 1, 2}, {1, 2}}},
       {1, 1.25f, 1.75f, 2}},
      {"resize",
       with({{"size", Shape{1, 4}}, {"mode", word("linear")}, {"places", word("asymmetric")}}),
       {{{1, 1, 2}, {1, 2}}},
       {1, 1.5f, 2, 2}},
      {"resize",
       with({{"size", Shape{1, 3}}, {"mode", word("linear")}, {"places", word("align_corners")}}),
       {{{1, 1, 2}, {1, 3}}},
       {1, 2, 3}},
      {"resize",
       with({{"size", Shape{1, 1}},
             {"mode", word("linear")},
             {"places", word("pytorch_half_pixel")}}),
       {{{1, 1, 2}, {1, 3}}},
       {1}},
      // Halfway between two pixels the four weigh -3/32, 19/32, 19/32, -3/32.
      {"resize",
       with({{"size", Shape{1, 2}}, {"mode", word("cubic")}}),
       {{{1, 1, 4}, {1, 2, 3, 8}}},
       {(-3 * 1 + 19 * 1 + 19 * 2 - 3 * 3) / 32.0f, (-3 * 2 + 19 * 3 + 19 * 8 - 3 * 8) / 32.0f}},
  };
}

std::vector<Worked> worked_windows() {
  return {
      {"max_pool",
       with({{"kernel", whole(2)}, {"padding", Shape{0, 1, 1, 0}}}),
       {{{1, 2, 3}, {-1, -2, -3, -4, -5, -6}}},
       {-1, -2}},
      {"max_pool",
       with({{"kernel", Shape{1, 2}}, {"dilation", Shape{1, 2}}, {"stride", whole(1)}}),
       {{{1, 1, 4}, {4, 1, 2, 3}}},
       {4, 3}},
      {"max_pool",
       with({{"kernel", whole(2)}, {"round_up", whole(1)}}),
       {{{1, 2, 3}, {1, 2, 3, 4, 5, 6}}},
       {5, 6}},
      {"avg_pool",
       with({{"kernel", whole(2)},
             {"padding", Shape{0, 1, 0, 0}},
             {"stride", whole(1)},
             {"count_padding", whole(0)}}),
       {{{1, 2, 2}, {1, 2, 3, 4}}},
       {2, 2.5f}},
      {"avg_pool",
       with({{"kernel", whole(2)}, {"padding", Shape{0, 1, 0, 0}}, {"stride", whole(1)}}),
       {{{1, 2, 2}, {1, 2, 3, 4}}},
       {1, 2.5f}},
      {"local_response_norm",
       with({{"size", whole(3)}, {"alpha", 3.0}, {"beta", 1.0}}),
       {{{3, 1, 1}, {1, 2, 3}}},
       {1 / 6.0f, 2 / 15.0f, 3 / 14.0f}},
      {"mean", {}, {kSix, {{2}, {0, 1}, true}}, {4, 5, 6}},
      {"normalize", {}, {{{2}, {3, 4}}}, {0.6f, 0.8f}},
      {"rms_norm", {}, {{{2}, {1, 7}}}, {0.2f, 1.4f}},
      {"select", with({{"index", whole(-1)}}), {kSix}, {4, 5, 6}},
  };
}

TEST(LayerValues, AreThoseWorkedOutByHand) {
  for (const auto& table : {worked_arithmetic(), worked_functions(), worked_sums(), worked_moves(),
                            worked_resizes(), worked_windows()}) {
    for (const Worked& item : table) {
      expect_values(computed(item.type, item.attributes, item.inputs), item.expected, item.type);
    }
  }
}

Tensor ramp(Shape shape) {
  Tensor out = Tensor::empty(std::move(shape), DType::kFloat32);
  float next = -1;
  for (float& value : out.mutable_values<float>()) value = next += 0.25f;
  return out;
}

// Padding of each side inside the layer, and by a layer of its own before it.
TEST(LayerValues, UnevenPaddingIsPaddingByHand) {
  const Tensor image = ramp({1, 3, 4}), weight = ramp({2, 1, 2, 2});
  const Values in = {{1, 3, 4}, {image.values<float>().begin(), image.values<float>().end()}};
  const Attributes plain = with(
      {{"out", whole(2)}, {"kernel", whole(2)}, {"dilation", Shape{2, 1}}, {"bias", whole(0)}});
  Attributes uneven = plain;
  uneven["padding"] = Shape{1, 0, 2, 3};
  const Tensor padded =
      computed("pad", with({{"before", Shape{0, 1, 0}}, {"after", Shape{0, 2, 3}}}), {in});
  const Values by_hand = {{1, 6, 7},
                          {padded.values<float>().begin(), padded.values<float>().end()}};
  const Tensor expected = computed("conv2d", plain, {by_hand}, {{"weight", weight}});
  expect_values(computed("conv2d", uneven, {in}, {{"weight", weight}}),
                {expected.values<float>().begin(), expected.values<float>().end()}, "conv2d");
}

// Each input number lays its window, scaled, onto the output.
TEST(LayerValues, TransposedConvolutionLaysWindowsDown) {
  const Values in = {{1, 1, 2}, {1, 2}};
  const Attributes attributes = with({{"out", whole(1)},
                                      {"kernel", Shape{1, 3}},
                                      {"stride", whole(2)},
                                      {"padding", Shape{0, 1, 0, 0}}});
  const Tensor weight = Tensor::of<float>({1, 1, 1, 3}, {1, 10, 100});
  const Tensor bias = Tensor::of<float>({1}, {0.5f});
  expect_values(
      computed("conv_transpose2d", attributes, {in}, {{"weight", weight}, {"bias", bias}}),
      {10.5f, 102.5f, 20.5f, 200.5f}, "conv_transpose2d");
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One number over three rows of one number, gate by gate.
struct Gates {
  std::vector<double> w, u, b, c;

  [[nodiscard]] double from_x(std::size_t gate, double x) const { return w[gate] * x + b[gate]; }
  [[nodiscard]] double from_h(std::size_t gate, double h) const { return u[gate] * h + c[gate]; }

  [[nodiscard]] std::map<std::string, Tensor> parameters(std::size_t gates) const {
    const auto tensor = [&](const std::vector<double>& from, bool matrix) {
      const auto rows = static_cast<std::int64_t>(gates);
      Tensor out = Tensor::empty(matrix ? Shape{rows, 1} : Shape{rows}, DType::kFloat32);
      for (std::size_t i = 0; i < gates; ++i) {
        out.mutable_values<float>()[i] = static_cast<float>(from[i]);
      }
      return out;
    };
    return {{"weight_ih.0", tensor(w, true)},
            {"weight_hh.0", tensor(u, true)},
            {"bias_ih.0", tensor(b, false)},
            {"bias_hh.0", tensor(c, false)}};
  }
};

const Gates kGates = {
    {0.3, -0.4, 0.8, 0.6}, {0.1, 0.9, -0.5, 0.2}, {0.05, -0.1, 0.2, 0.4}, {-0.3, 0.15, 0.25, 0.1}};

// Gates: input, forget, candidate, output.
Numbers lstm_by_hand(const Numbers& rows, double h, double cell) {
  Numbers out;
  for (const float x : rows) {
    const auto gate = [&](std::size_t i) { return kGates.from_x(i, x) + kGates.from_h(i, h); };
    cell = logistic(gate(1)) * cell + logistic(gate(0)) * std::tanh(gate(2));
    h = logistic(gate(3)) * std::tanh(cell);
    out.push_back(static_cast<float>(h));
  }
  return out;
}

// Gates: reset, update, candidate.
Numbers gru_by_hand(const Numbers& rows, double h, bool reset_first) {
  Numbers out;
  for (const float x : rows) {
    const double reset = logistic(kGates.from_x(0, x) + kGates.from_h(0, h));
    const double update = logistic(kGates.from_x(1, x) + kGates.from_h(1, h));
    const double hidden = reset_first ? kGates.from_h(2, reset * h) : reset * kGates.from_h(2, h);
    h = (1 - update) * std::tanh(kGates.from_x(2, x) + hidden) + update * h;
    out.push_back(static_cast<float>(h));
  }
  return out;
}

TEST(LayerValues, RecurrentLayersFollowTheirEquations) {
  const Numbers rows = {0.5f, -1, 2}, back = {2, -1, 0.5f};
  const Values in = {{3, 1}, rows}, h = {{1, 1}, {0.7f}}, c = {{1, 1}, {-0.2f}};
  Attributes settings = with({{"width", whole(1)}});
  const auto lstm = kGates.parameters(4), gru = kGates.parameters(3);
  expect_values(computed("lstm", settings, {in}, lstm), lstm_by_hand(rows, 0, 0), "lstm");
  expect_values(computed("lstm", settings, {in, h, c}, lstm), lstm_by_hand(rows, 0.7, -0.2),
                "lstm from states");
  expect_values(computed("gru", settings, {in, h}, gru), gru_by_hand(rows, 0.7, false), "gru");
  settings["linear_before_reset"] = whole(0);
  expect_values(computed("gru", settings, {in, h}, gru), gru_by_hand(rows, 0.7, true),
                "gru that resets first");
  settings["reverse"] = whole(1);
  Numbers reversed = gru_by_hand(back, 0, true);
  std::ranges::reverse(reversed);
  expect_values(computed("gru", settings, {in}, gru), reversed, "gru backwards");
}

}  // namespace
}  // namespace harmonics::inline in_runtime
