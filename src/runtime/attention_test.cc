// Attention against plain loops, and batches of unequal length through one kernel.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/torch_layer.h>

#include "layer_cases_testing.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::int64_t kBatch = 2;

/// One attention layer with made-up parameters, in float64.
struct Layer {
  LayerCase item;
  HarmonicGraph graph;
  std::vector<at::Tensor> parameters;

  explicit Layer(LayerCase of) : item(std::move(of)), graph(graph_of(item)) {
    at::manual_seed(3);
    for (const ParameterSpec& spec : graph.layer_shape(0).parameters) {
      parameters.push_back(at::randn(spec.shape, at::kDouble));
    }
  }

  static HarmonicGraph graph_of(const LayerCase& item) {
    GraphBuilder builder("one");
    std::vector<std::string> names;
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      names.push_back(format("x{}", i));
      builder.producer(names.back(), item.inputs[i],
                       item.ids_below(i) > 0 ? DType::kInt64 : DType::kFloat64);
    }
    return builder.layer("layer", item.type, item.attributes, names).build();
  }

  at::Tensor compute(const std::vector<at::Tensor>& inputs) const {
    std::vector<TensorSpec> specs;
    for (const std::string& name : graph.layers()[0].inputs) specs.push_back(graph.spec(name));
    LayerCall call;
    call.inputs = inputs;
    call.parameters = parameters;
    call.compute = at::kDouble;
    return make_layer_forward({"layer", item.type, specs, graph.full_attributes(0)})(call);
  }

  double number(const std::string& name, double otherwise) const {
    const Attributes& all = graph.full_attributes(0);
    const auto found = all.find(name);
    if (found == all.end()) return otherwise;
    const auto* whole = std::get_if<std::int64_t>(&found->second);
    return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(found->second);
  }
  std::string text(const std::string& name) const {
    const Attributes& all = graph.full_attributes(0);
    const auto found = all.find(name);
    return found == all.end() ? "none" : std::get<std::string>(found->second);
  }
};

/// The same, number by number, in double throughout.
class Loops {
 public:
  explicit Loops(const Layer& layer)
      : layer_(layer),
        heads_(static_cast<std::int64_t>(layer.number("heads", 1))),
        separate_(layer.number("separate", 0) != 0),
        bias_(layer.number("bias", 1) != 0) {}

  at::Tensor compute(const at::Tensor& x, const at::Tensor& mask) {
    at::Tensor q, k, v;
    if (separate_) {
      q = next(x, bias_), k = next(x, bias_), v = next(x, bias_);
    } else {
      const std::vector<at::Tensor> all = next(x, true).chunk(3, 2);
      q = all[0], k = all[1], v = all[2];
    }
    dim_ = q.size(2) / heads_;
    copies_ = heads_ / (k.size(2) / dim_);
    turn(q);
    turn(k);
    at::Tensor rows = at::zeros({x.size(0), x.size(1), heads_ * dim_}, at::kDouble);
    for (std::int64_t b = 0; b < x.size(0); ++b) {
      for (std::int64_t head = 0; head < heads_; ++head) {
        for (std::int64_t i = 0; i < x.size(1); ++i) row(b, head, i, {q, k, v, mask, rows});
      }
    }
    if (layer_.number("project", 1) == 0) return rows;
    return next(rows, layer_.number("out_bias", 1) != 0);
  }

 private:
  struct Tensors {
    at::Tensor q, k, v, mask, rows;
  };

  at::Tensor next(const at::Tensor& x, bool bias) {
    const at::Tensor weight = layer_.parameters[used_++];
    at::Tensor y = at::einsum("btw,ow->bto", {x, weight});
    return bias ? y + layer_.parameters[used_++] : y;
  }

  double frequency(std::int64_t pair, std::int64_t dims) const {
    const double exponent = 2.0 * static_cast<double>(pair) / static_cast<double>(dims);
    const double plain = std::pow(layer_.number("rope_theta", 10000), -exponent);
    const double factor = layer_.number("rope_factor", 1);
    if (layer_.text("rope_scaling") == "linear") return plain / factor;
    if (layer_.text("rope_scaling") != "llama3") return plain;
    const double low = layer_.number("rope_low", 0), high = layer_.number("rope_high", 0);
    const double turns = layer_.number("rope_original", 0) * plain / (2 * std::numbers::pi);
    if (turns > high) return plain;
    if (turns < low) return plain / factor;
    const double smooth = (turns - low) / (high - low);
    return (1 - smooth) * plain / factor + smooth * plain;
  }

  void turn(at::Tensor& x) const {
    if (layer_.text("rope") == "none") return;
    const at::Tensor from = x.clone();
    const auto dims =
        static_cast<std::int64_t>(static_cast<double>(dim_) * layer_.number("rope_fraction", 1));
    auto to = x.accessor<double, 3>();
    const auto at = from.accessor<double, 3>();
    for (std::int64_t b = 0; b < x.size(0); ++b) {
      for (std::int64_t t = 0; t < x.size(1); ++t) {
        for (std::int64_t head = 0; head < x.size(2) / dim_; ++head) {
          for (std::int64_t pair = 0; pair < dims / 2; ++pair) {
            const double angle = static_cast<double>(t) * frequency(pair, dims);
            const std::int64_t i = head * dim_ + pair, j = i + dims / 2;
            to[b][t][i] = at[b][t][i] * std::cos(angle) - at[b][t][j] * std::sin(angle);
            to[b][t][j] = at[b][t][j] * std::cos(angle) + at[b][t][i] * std::sin(angle);
          }
        }
      }
    }
  }

  bool sees(std::int64_t i, std::int64_t j) const {
    if (layer_.number("causal", 0) == 0) return true;
    const auto window = static_cast<std::int64_t>(layer_.number("window", 0));
    return j <= i && (window == 0 || j > i - window);
  }

  void row(std::int64_t b, std::int64_t head, std::int64_t i, const Tensors& t) const {
    std::vector<double> weights;
    std::vector<std::int64_t> keys;
    double sum = 0;
    for (std::int64_t j = 0; j < t.q.size(1); ++j) {
      if (!sees(i, j) || (t.mask.defined() && t.mask[b][j].item<std::int64_t>() == 0)) continue;
      const at::Tensor query = t.q[b][i].narrow(0, head * dim_, dim_);
      const at::Tensor key = t.k[b][j].narrow(0, head / copies_ * dim_, dim_);
      const double score = (query * key).sum().item<double>();
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim_))));
      keys.push_back(j);
      sum += weights.back();
    }
    for (std::size_t n = 0; n < keys.size(); ++n) {
      const at::Tensor value = t.v[b][keys[n]].narrow(0, head / copies_ * dim_, dim_);
      t.rows[b][i].narrow(0, head * dim_, dim_) += value * (weights[n] / sum);
    }
  }

  const Layer& layer_;
  std::int64_t heads_, dim_ = 0, copies_ = 1;
  bool separate_, bias_;
  std::size_t used_ = 0;
};

std::vector<at::Tensor> inputs_of(const LayerCase& item, std::int64_t length) {
  at::manual_seed(5);
  std::vector<at::Tensor> inputs = {at::randn({kBatch, length, item.inputs[0][1]}, at::kDouble)};
  if (item.inputs.size() == 1) return inputs;
  // The first row counts, so that every query has a key to look at.
  at::Tensor mask = at::randint(2, {kBatch, length}, at::kLong);
  mask.select(1, 0).fill_(1);
  inputs.push_back(mask);
  return inputs;
}

TEST(Attention, EqualsPlainLoops) {
  for (const LayerCase& item : attention_cases()) {
    SCOPED_TRACE(item.label);
    const Layer layer(item);
    const std::vector<at::Tensor> inputs = inputs_of(item, item.inputs[0][0]);
    const at::Tensor expected =
        Loops(layer).compute(inputs[0], inputs.size() > 1 ? inputs[1] : at::Tensor());
    // Turns are worked out in float32, as they are in the models.
    const double bar = layer.text("rope") == "none" ? 1e-12 : 1e-5;
    EXPECT_LE((layer.compute(inputs) - expected).abs().max().item<double>(), bar);
  }
}

TEST(Attention, OneKernelTakesEveryLength) {
  for (const LayerCase& item : attention_cases()) {
    SCOPED_TRACE(item.label);
    const Layer layer(item);
    for (const std::int64_t length : {1, 3, 9}) {
      LayerCase own = item;
      for (Shape& shape : own.inputs) shape[0] = length;
      const std::vector<at::Tensor> inputs = inputs_of(item, length);
      EXPECT_TRUE(at::equal(layer.compute(inputs), Layer(own).compute(inputs))) << length;
    }
  }
}

TEST(Attention, PaddingChangesNothing) {
  LayerCase item{"padded",      "attention", with({{"heads", whole(2)}, {"separate", whole(1)}}),
                 {{6, 4}, {6}}, {},          {0, 2}};
  const Layer layer(item);
  std::vector<at::Tensor> inputs = inputs_of(item, 6);
  inputs[1].fill_(1);
  inputs[1].narrow(1, 4, 2).fill_(0);
  const at::Tensor padded = layer.compute(inputs).narrow(1, 0, 4);
  const at::Tensor alone = layer.compute(
      {inputs[0].narrow(1, 0, 4).contiguous(), inputs[1].narrow(1, 0, 4).contiguous()});
  EXPECT_LE((padded - alone).abs().max().item<double>(), 1e-14);
}

TEST(Attention, ARowThatMaySeeNothingIsFinite) {
  const LayerCase item = attention_cases()[1];
  const Layer layer(item);
  std::vector<at::Tensor> inputs = inputs_of(item, 5);
  inputs[1].fill_(0);
  EXPECT_TRUE(at::isfinite(layer.compute(inputs)).all().item<bool>());
}

}  // namespace
}  // namespace harmonics::inline in_runtime
