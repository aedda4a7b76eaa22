// Attention: shapes, parameters and what its many settings refuse.
#include <array>
#include <cmath>

#include "builtin.h"
#include "builtin_attributes.h"

namespace harmonics::inline in_graph {
namespace {

/// What the attributes say, checked.
struct AttentionSettings {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  bool separate = false;
  bool bias = true;
  bool out_bias = true;
};

void need_separate(const LayerQuery& q) {
  for (const char* name : {"kv_heads", "head_dim", "bias", "out_bias"}) {
    if (q.has(name)) q.refuse(format("'{}' needs separate=true", name));
  }
}

// Without them the layer computes what it did before it learnt the rest, bit for bit.
void need_scaled_scores(const LayerQuery& q) {
  if (q.inputs.size() > 1) q.refuse("a mask needs separate=true or scale=scores");
  for (const char* name : {"window", "rope"}) {
    if (q.has(name)) q.refuse(format("'{}' needs separate=true or scale=scores", name));
  }
}

void check_scale(const LayerQuery& q, bool separate) {
  const std::string scale = q.text_or("scale", separate ? "scores" : "query");
  if (scale != "query" && scale != "scores") {
    q.refuse(format("'scale' must be query or scores, not {}", scale));
  }
  if (separate && scale == "query") q.refuse("separate=true scales the scores, not the query");
  if (scale == "query") need_scaled_scores(q);
}

AttentionSettings attention_settings(const LayerQuery& q) {
  const std::int64_t width = q.inputs[0].shape[1];
  AttentionSettings s;
  s.heads = q.integer("heads", 1);
  s.separate = q.integer_or("separate", 0) != 0;
  check_scale(q, s.separate);
  if (!s.separate) need_separate(q);
  if (!q.has("head_dim") && width % s.heads != 0) {
    q.refuse(format("heads={} must divide the width {}", s.heads, width));
  }
  s.head_dim = q.has("head_dim") ? q.integer("head_dim", 1) : width / s.heads;
  s.kv_heads = q.has("kv_heads") ? q.integer("kv_heads", 1) : s.heads;
  if (s.heads % s.kv_heads != 0) {
    q.refuse(format("kv_heads={} must divide heads={}", s.kv_heads, s.heads));
  }
  s.bias = q.integer_or("bias", 1) != 0;
  s.out_bias = q.integer_or("out_bias", 1) != 0;
  if (q.integer_or("window", 0) < 0) q.refuse("'window' must be at least 0 (0: none)");
  if (q.integer_or("window", 0) > 0 && q.integer("causal") == 0) {
    q.refuse("'window' counts tokens back and needs causal=true");
  }
  return s;
}

void check_scaling(const LayerQuery& q) {
  constexpr std::array<const char*, 4> kNames = {"rope_factor", "rope_low", "rope_high",
                                                 "rope_original"};
  const std::string scaling = q.text_or("rope_scaling", "none");
  const std::size_t needed = scaling == "llama3" ? 4 : scaling == "linear" ? 1 : 0;
  if (needed == 0 && scaling != "none") {
    q.refuse(format("'rope_scaling' must be none, linear or llama3, not {}", scaling));
  }
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (i >= needed && q.has(kNames[i])) {
      q.refuse(format("'{}' has no meaning with rope_scaling={}", kNames[i], scaling));
    }
    if (i < needed && !(q.number(kNames[i]) > 0)) {
      q.refuse(format("'{}' must be above 0", kNames[i]));
    }
  }
  if (needed == 4 && !(q.number("rope_high") > q.number("rope_low"))) {
    q.refuse("'rope_high' must be above 'rope_low'");
  }
}

void check_rope(const LayerQuery& q, std::int64_t head_dim) {
  const std::string rope = q.text_or("rope", "none");
  if (rope == "none") {
    for (const auto& [name, value] : q.attributes) {
      if (name.starts_with("rope_")) q.refuse(format("'{}' needs rope=llama or rope=neox", name));
    }
    return;
  }
  if (rope != "llama" && rope != "neox") {
    q.refuse(format("'rope' must be none, llama or neox, not {}", rope));
  }
  if (!(q.number_or("rope_theta", 10000) > 1)) q.refuse("'rope_theta' must be above 1");
  const double fraction = q.number_or("rope_fraction", 1);
  if (!(fraction > 0 && fraction <= 1)) q.refuse("'rope_fraction' must be above 0 and at most 1");
  if (rope == "llama" && fraction != 1) q.refuse("'rope_fraction' needs rope=neox");
  const auto turned = static_cast<std::int64_t>(static_cast<double>(head_dim) * fraction);
  if (turned < 2 || turned % 2 != 0) {
    q.refuse(format("rotary positions turn pairs, but {} of the {} numbers of a head are to turn",
                    turned, head_dim));
  }
  check_scaling(q);
}

void add_projection(LayerShape& result, const std::string& name, Shape weight, bool bias) {
  const double bound = kaiming_bound(weight[1]);
  const std::int64_t out = weight[0];
  result.parameters.push_back({name + ".weight", std::move(weight), Init::kUniform, bound});
  if (bias) result.parameters.push_back({name + ".bias", {out}, Init::kUniform, bound});
}

LayerShape infer_attention(const LayerQuery& q) {
  need_floating_first(q);
  need_rank(q, 2, "{length, width}");
  const AttentionSettings s = attention_settings(q);
  check_row_mask(q);
  check_rope(q, s.head_dim);
  const std::int64_t width = q.inputs[0].shape[1];
  const std::int64_t inner = s.heads * s.head_dim;
  const std::int64_t shared = s.kv_heads * s.head_dim;
  LayerShape result{q.inputs[0], {}, 0};
  result.output.shape[1] = q.integer("project") != 0 ? width : inner;
  if (s.separate) {
    add_projection(result, "q", {inner, width}, s.bias);
    add_projection(result, "k", {shared, width}, s.bias);
    add_projection(result, "v", {shared, width}, s.bias);
  } else {
    add_projection(result, "qkv", {3 * width, width}, true);
  }
  const auto n = static_cast<double>(q.inputs[0].shape[0]);
  const auto d = static_cast<double>(width);
  const auto within = static_cast<double>(inner);
  result.flops = 2.0 * n * d * (within + 2.0 * static_cast<double>(shared)) + 4.0 * n * n * within;
  if (q.integer("project") != 0) {
    add_projection(result, "out", {width, inner}, s.out_bias);
    result.flops += 2.0 * n * within * d;
  }
  return result;
}

}  // namespace

std::vector<LayerType> attention_layer_types() {
  return {{"attention",
           {required("heads"), with_default("causal", std::int64_t{0}),
            with_default("project", std::int64_t{1}), optional("separate"), optional("scale"),
            optional("kv_heads"), optional("head_dim"), optional("bias"), optional("out_bias"),
            optional("window"), optional("rope"), optional("rope_theta"), optional("rope_fraction"),
            optional("rope_scaling"), optional("rope_factor"), optional("rope_low"),
            optional("rope_high"), optional("rope_original")},
           1,
           2,
           infer_attention}};
}

}  // namespace harmonics::inline in_graph
