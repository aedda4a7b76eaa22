// For tests: small language models with drawn weights.
#pragma once

#include <map>
#include <string>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/harp.h>
#include <harmonics/models/weight_source.h>

namespace harmonics::inline in_runtime {

/// As an import makes of Llama: groups of heads, rotary positions, a tied head.
inline HarmonicGraph small_llama(int blocks = 3, int vocabulary = 50, int length = 200) {
  std::string text = format(
      "harmonic small {{\n axis T <= {};\n producer input_ids {{T}} int64;\n consumer logits;\n"
      " layer hidden.0 embedding(rows={}, width=24);\n",
      length, vocabulary);
  std::string flows = " cycle {\n input_ids -> hidden.0;\n";
  for (int i = 1; i <= blocks; ++i) {
    text += format(
        " layer b{0}.norm rms_norm(eps=1e-5);\n"
        " layer b{0}.attention attention(heads=6, kv_heads=2, head_dim=4, causal=true, "
        "separate=true, bias=false, out_bias=false, rope=llama, rope_theta=1000);\n"
        " layer b{0}.sum add;\n layer b{0}.post rms_norm(eps=1e-5);\n"
        " layer b{0}.gate linear(40, bias=false);\n layer b{0}.up linear(40, bias=true);\n"
        " layer b{0}.product mul;\n layer b{0}.down linear(24, bias=false);\n"
        " layer hidden.{0} add;\n",
        i);
    flows += format(
        " hidden.{1} -> b{0}.norm -> b{0}.attention;\n hidden.{1}, b{0}.attention -> b{0}.sum -> "
        "b{0}.post -(silu)-> b{0}.gate;\n b{0}.post -> b{0}.up;\n b{0}.gate, b{0}.up -> "
        "b{0}.product -> b{0}.down;\n b{0}.sum, b{0}.down -> hidden.{0};\n",
        i, i - 1);
  }
  text += format(
      " layer norm rms_norm(eps=1e-5);\n layer head linear({}, bias=false, "
      "tie=hidden.0.weight);\n",
      vocabulary);
  flows += format(" hidden.{} -> norm -> head -> logits;\n }}\n}}\n", blocks);
  return parse_harp(text + flows);
}

/// As an import makes of Qwen2: biases of queries, keys and values, heads of eight numbers.
inline HarmonicGraph small_qwen2() {
  std::string text =
      "harmonic small {\n axis T <= 300;\n producer input_ids {T} int64;\n consumer logits;\n"
      " layer hidden.0 embedding(rows=50, width=32);\n";
  std::string flows = " cycle {\n input_ids -> hidden.0;\n";
  for (int i = 1; i <= 2; ++i) {
    text += format(
        " layer b{0}.norm rms_norm(eps=1e-6);\n"
        " layer b{0}.attention attention(heads=4, kv_heads=2, head_dim=8, causal=true, "
        "separate=true, bias=true, out_bias=false, rope=llama, rope_theta=10000);\n"
        " layer b{0}.sum add;\n layer b{0}.post rms_norm(eps=1e-6);\n"
        " layer b{0}.gate linear(48, bias=false);\n layer b{0}.up linear(48, bias=false);\n"
        " layer b{0}.product mul;\n layer b{0}.down linear(32, bias=false);\n"
        " layer hidden.{0} add;\n",
        i);
    flows += format(
        " hidden.{1} -> b{0}.norm -> b{0}.attention;\n hidden.{1}, b{0}.attention -> b{0}.sum -> "
        "b{0}.post -(silu)-> b{0}.gate;\n b{0}.post -> b{0}.up;\n b{0}.gate, b{0}.up -> "
        "b{0}.product -> b{0}.down;\n b{0}.sum, b{0}.down -> hidden.{0};\n",
        i, i - 1);
  }
  return parse_harp(text +
                    " layer norm rms_norm(eps=1e-6);\n layer head linear(51, bias=false);\n" +
                    flows + " hidden.2 -> norm -> head -> logits;\n }\n}\n");
}

/// As an import makes of GPT-2: learnt positions, layer norms, queries, keys and values in one.
inline HarmonicGraph small_gpt2() {
  std::string text =
      "harmonic small {\n axis T <= 300;\n producer input_ids {T} int64;\n consumer logits;\n"
      " layer words embedding(rows=50, width=32);\n layer hidden.0 position(rows=300);\n";
  std::string flows = " cycle {\n input_ids -> words -> hidden.0;\n";
  for (int i = 1; i <= 2; ++i) {
    text += format(
        " layer b{0}.norm layer_norm(eps=1e-5);\n"
        " layer b{0}.attention attention(heads=4, causal=true);\n"
        " layer b{0}.sum add;\n layer b{0}.post layer_norm(eps=1e-5);\n"
        " layer b{0}.up linear(128);\n layer b{0}.down linear(32);\n layer hidden.{0} add;\n",
        i);
    flows += format(
        " hidden.{1} -> b{0}.norm -> b{0}.attention;\n hidden.{1}, b{0}.attention -> b{0}.sum -> "
        "b{0}.post -(gelu_tanh)-> b{0}.up -> b{0}.down;\n b{0}.sum, b{0}.down -> hidden.{0};\n",
        i, i - 1);
  }
  return parse_harp(text +
                    " layer norm layer_norm(eps=1e-5);\n layer head linear(50, bias=false, "
                    "tie=words.weight);\n" +
                    flows + " hidden.2 -> norm -> head -> logits;\n }\n}\n");
}

/// Weights of a deviation at which tokens differ.
inline WeightSource drawn_weights(const HarmonicGraph& graph, float deviation = 0.5f) {
  std::map<std::string, Tensor> all;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& parameter : graph.layer_shape(i).parameters) {
      if (!parameter.tied_to.empty()) continue;
      const std::string name = parameter_name(graph.layers()[i], parameter);
      Tensor values = Tensor::zeros(parameter.shape);
      Random random(5, name);
      for (float& value : values.mutable_values<float>()) {
        value = deviation * random.normal() + (parameter.shape.size() == 1 ? 1.0f : 0.0f);
      }
      all.emplace(name, std::move(values));
    }
  }
  WeightSource source;
  source.hold(std::move(all));
  return source;
}

}  // namespace harmonics::inline in_runtime
