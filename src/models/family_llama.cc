// Llama (SmolLM among them), Mistral and Qwen2: rotary positions, groups of heads, gated
// feed-forward.
#include <harmonics/base/error.h>

#include "model_family.h"

namespace harmonics::inline in_models {
namespace {

constexpr std::string_view kLlamaBody = R"(
  %axis%
  producer input_ids {T} int64;
%head_nodes%
  group embeddings {
    layer hidden.0 embedding(rows=%vocabulary%, width=%width%, scale=0.02);
  }
  repeat %blocks% as i {
    group layers.$(i-1) {
      layer layers.$(i-1).input_norm rms_norm(eps=%eps%);
      layer layers.$(i-1).attention attention(%attention%);
      layer layers.$(i-1).attention_sum add;
      layer layers.$(i-1).post_norm rms_norm(eps=%eps%);
      layer layers.$(i-1).mlp.gate linear(%inner%, bias=%mlp_bias%);
      layer layers.$(i-1).mlp.up linear(%inner%, bias=%mlp_bias%);
      layer layers.$(i-1).mlp.product mul;
      layer layers.$(i-1).mlp.down linear(%width%, bias=%mlp_bias%);
      layer hidden.$i add;
    }
  }
  group head {
    layer norm rms_norm(eps=%eps%);
%head_layers%  }

  cycle {
    input_ids -> hidden.0;
    repeat %blocks% as i {
      hidden.$(i-1) -> layers.$(i-1).input_norm -> layers.$(i-1).attention;
      hidden.$(i-1), layers.$(i-1).attention -> layers.$(i-1).attention_sum
        -> layers.$(i-1).post_norm -(%activation%)-> layers.$(i-1).mlp.gate;
      layers.$(i-1).post_norm -> layers.$(i-1).mlp.up;
      layers.$(i-1).mlp.gate, layers.$(i-1).mlp.up -> layers.$(i-1).mlp.product
        -> layers.$(i-1).mlp.down;
      layers.$(i-1).attention_sum, layers.$(i-1).mlp.down -> hidden.$i;
    }
    hidden.%blocks% -> norm;
%head_flows%  }
)";

const std::vector<NameRow> kLlamaNames = {
    {"hidden.0", "embed_tokens"},
    {"layers.$(i-1).input_norm", "layers.$(i-1).input_layernorm"},
    {"layers.$(i-1).attention.q", "layers.$(i-1).self_attn.q_proj"},
    {"layers.$(i-1).attention.k", "layers.$(i-1).self_attn.k_proj"},
    {"layers.$(i-1).attention.v", "layers.$(i-1).self_attn.v_proj"},
    {"layers.$(i-1).attention.out", "layers.$(i-1).self_attn.o_proj"},
    {"layers.$(i-1).post_norm", "layers.$(i-1).post_attention_layernorm"},
    {"layers.$(i-1).mlp.gate", "layers.$(i-1).mlp.gate_proj"},
    {"layers.$(i-1).mlp.up", "layers.$(i-1).mlp.up_proj"},
    {"layers.$(i-1).mlp.down", "layers.$(i-1).mlp.down_proj"},
    {"norm", "norm"},
    {"lm_head", "/lm_head"},
};

double number_of(const ModelConfig& config, const Json& scaling, std::string_view key) {
  const Json* value = scaling.find(key);
  if (value == nullptr) config.refuse("rope_scaling", format("it has no '{}'", key));
  return value->as_number();
}

// ", rope_scaling=llama3, rope_factor=8, …"; empty without scaling.
std::string rope_scaling(ModelConfig& config) {
  const Json* scaling = config.take("rope_scaling");
  if (scaling == nullptr) return {};
  const Json* kind = scaling->find("rope_type");
  if (kind == nullptr) kind = scaling->find("type");
  const std::string name = kind == nullptr ? std::string() : kind->as_string();
  if (name == "default") return {};
  if (name == "linear") {
    return format(", rope_scaling=linear, rope_factor={}", number_of(config, *scaling, "factor"));
  }
  if (name == "llama3") {
    return format(
        ", rope_scaling=llama3, rope_factor={}, rope_low={}, rope_high={}, rope_original={}",
        number_of(config, *scaling, "factor"), number_of(config, *scaling, "low_freq_factor"),
        number_of(config, *scaling, "high_freq_factor"),
        static_cast<std::int64_t>(number_of(config, *scaling, "original_max_position_embeddings")));
  }
  config.refuse("rope_scaling", "known are default, linear and llama3");
}

// What differs between the families: biases and windows.
std::string attention_choices(ModelConfig& config, const std::string& architecture) {
  if (architecture.starts_with("Qwen2")) {
    config.expect("use_sliding_window", false);
    config.pass_over({"sliding_window", "max_window_layers"});
    return "bias=true, out_bias=false";
  }
  if (architecture.starts_with("Mistral")) {
    const std::int64_t window = config.whole("sliding_window", 0);
    return window == 0 ? "bias=false, out_bias=false"
                       : format("bias=false, out_bias=false, window={}", window);
  }
  const bool biased = config.truth("attention_bias", false);
  return biased ? "bias=true, out_bias=true" : "bias=false, out_bias=false";
}

std::string attention_text(ModelConfig& config, const std::string& architecture,
                           std::int64_t width) {
  const std::int64_t heads = config.whole("num_attention_heads");
  const std::int64_t groups = config.whole("num_key_value_heads", heads);
  const std::int64_t head = config.whole("head_dim", width / heads);
  if (heads % groups != 0) {
    config.refuse("num_key_value_heads", format("it does not divide {} heads", heads));
  }
  return format(
      "heads={}, kv_heads={}, head_dim={}, causal=true, separate=true, {}, rope=llama, "
      "rope_theta={}{}",
      heads, groups, head, attention_choices(config, architecture),
      config.real("rope_theta", 10000.0), rope_scaling(config));
}

ModelDraft draft_llama(DraftRequest& request, const std::string& architecture) {
  ModelConfig& config = request.config;
  config.expect("pretraining_tp", 1);
  config.pass_over({"rope_interleaved", "is_llama_config"});
  config.expect("rope_interleaved", false);
  config.leave_out({"attention_dropout"});
  const bool tied = config.truth("tie_word_embeddings", false);
  const std::int64_t blocks = config.whole("num_hidden_layers");
  const std::int64_t width = config.whole("hidden_size");
  const std::string vocabulary = std::to_string(config.whole("vocab_size"));
  const bool speaks = architecture.ends_with("ForCausalLM");
  const Placeholders values = {
      {"axis", request.axis(config.whole("max_position_embeddings", 2048))},
      {"vocabulary", vocabulary},
      {"width", std::to_string(width)},
      {"blocks", std::to_string(blocks)},
      {"eps", format("{}", config.real("rms_norm_eps", 1e-6))},
      {"attention", attention_text(config, architecture, width)},
      {"inner", std::to_string(config.whole("intermediate_size"))},
      {"mlp_bias", config.truth("mlp_bias", false) ? "true" : "false"},
      {"activation", config.activation("hidden_act", "silu")},
      {"head_nodes", speaks ? "  producer labels {T} int64;\n  consumer logits;\n"
                            : "  consumer last_hidden_state;\n"},
      {"head_layers", speaks ? format("    layer lm_head linear({}, bias=false{});\n", vocabulary,
                                      tied ? ", tie=hidden.0.weight" : "")
                             : std::string()},
      {"head_flows", speaks
                         ? "    norm -> lm_head -> logits;\n    lm_head <-(next_token)- labels;\n"
                         : "    norm -> last_hidden_state;\n"},
  };
  ModelDraft draft{
      filled(kLlamaBody, values), kLlamaNames, blocks, {"*.self_attn.rotary_emb.inv_freq"}};
  if (tied) draft.unneeded.push_back("/lm_head.weight");
  return draft;
}

}  // namespace

std::vector<ModelFamily> llama_families() {
  return {{"llama", "model.", {"LlamaModel", "LlamaForCausalLM"}, draft_llama},
          {"mistral", "model.", {"MistralModel", "MistralForCausalLM"}, draft_llama},
          {"qwen2", "model.", {"Qwen2Model", "Qwen2ForCausalLM"}, draft_llama}};
}

}  // namespace harmonics::inline in_models
