#include "gguf_model.h"

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>

namespace harmonics::inline in_models {
namespace {

/// One setting of an architecture and its key in config.json; empty: of no bearing.
struct GgufKey {
  std::string_view theirs;
  std::string_view key;
};
constexpr std::array kGgufKeys = {
    GgufKey{"block_count", "num_hidden_layers"},
    GgufKey{"context_length", "max_position_embeddings"},
    GgufKey{"embedding_length", "hidden_size"},
    GgufKey{"feed_forward_length", "intermediate_size"},
    GgufKey{"attention.head_count", "num_attention_heads"},
    GgufKey{"attention.head_count_kv", "num_key_value_heads"},
    GgufKey{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    GgufKey{"attention.key_length", "head_dim"},
    GgufKey{"attention.value_length", ""},
    GgufKey{"rope.freq_base", "rope_theta"},
    GgufKey{"rope.dimension_count", "head_dim"},
    GgufKey{"vocab_size", "vocab_size"},
};

/// Tensors of one block, without ".weight" or ".bias".
struct GgufName {
  std::string_view theirs;
  std::string_view own;
};
constexpr std::array kGgufBlock = {
    GgufName{"attn_norm", "input_layernorm"},    GgufName{"attn_q", "self_attn.q_proj"},
    GgufName{"attn_k", "self_attn.k_proj"},      GgufName{"attn_v", "self_attn.v_proj"},
    GgufName{"attn_output", "self_attn.o_proj"}, GgufName{"ffn_norm", "post_attention_layernorm"},
    GgufName{"ffn_gate", "mlp.gate_proj"},       GgufName{"ffn_up", "mlp.up_proj"},
    GgufName{"ffn_down", "mlp.down_proj"},
};
constexpr std::array kGgufOutside = {GgufName{"token_embd", "model.embed_tokens"},
                                     GgufName{"output_norm", "model.norm"},
                                     GgufName{"output", "lm_head"}};

class GgufTranslation {
 public:
  GgufTranslation(const GgufFile& file, std::string_view origin) : file_(file), origin_(origin) {}

  GgufModel run() {
    const auto named = file_.settings.find("general.architecture");
    architecture_ = named == file_.settings.end() ? "" : named->second.as_string();
    if (architecture_ != "llama" && architecture_ != "qwen2") {
      fail(ErrorCode::kUnimplemented,
           "'{}' holds a model of architecture '{}'; of GGUF files those of llama and qwen2 are "
           "read",
           origin_, architecture_);
    }
    Json config = this->config();
    WeightEntries entries = this->entries(config);
    return {std::move(config), WeightSource(file_.weights.files(), std::move(entries))};
  }

 private:
  Json config() {
    const bool llama = architecture_ == "llama";
    Json config;
    config.set("model_type", architecture_);
    config.set("architectures",
               Json(Json::Array{Json(llama ? "LlamaForCausalLM" : "Qwen2ForCausalLM")}));
    config.set("tie_word_embeddings", !file_.weights.entries().contains("output.weight"));
    const std::string start = architecture_ + ".";
    for (const auto& [key, value] : file_.settings) {
      if (key.starts_with(start)) take(key.substr(start.size()), value, config);
    }
    if (scaling_ == "none") config.set("rope_scaling", Json());
    if (config.find("vocab_size") == nullptr) {
      config.set("vocab_size", file_.weights.at("token_embd.weight").shape.at(0));
    }
    return config;
  }

  void take(const std::string& key, const Json& value, Json& config) {
    const auto known = std::ranges::find(kGgufKeys, key, &GgufKey::theirs);
    if (known != kGgufKeys.end()) {
      if (known->key.empty()) return;
      const Json* earlier = config.find(known->key);
      if (earlier != nullptr && earlier->dump() != value.dump()) refuse(key, value);
      config.set(known->key, value);
      return;
    }
    if (key == "rope.scaling.type") {
      scaling_ = value.as_string();
      if (scaling_ != "none" && scaling_ != "linear") refuse(key, value);
    } else if (key == "rope.scaling.factor") {
      config.set("rope_scaling", Json().set("type", "linear").set("factor", value));
    } else if (!(key == "expert_count" || key == "expert_used_count") || value.as_integer() != 0) {
      refuse(key, value);
    }
  }

  [[noreturn]] void refuse(const std::string& key, const Json& value) const {
    fail(ErrorCode::kUnimplemented, "'{}': '{}.{}' = {} is not honoured", origin_, architecture_,
         key, value.dump());
  }

  WeightEntries entries(const Json& config) const {
    WeightEntries all;
    for (const auto& [name, stored] : file_.weights.entries()) {
      WeightEntry entry = stored;
      const std::string own = own_name(name);
      entry.source_name = own;
      // Llama's queries and keys were put into pairs for rotary positions.
      const bool turns = architecture_ == "llama";
      if (turns && name.find(".attn_q.") != std::string::npos) {
        entry.layout.paired_heads = config.at("num_attention_heads").as_integer();
      } else if (turns && name.find(".attn_k.") != std::string::npos) {
        const Json* groups = config.find("num_key_value_heads");
        entry.layout.paired_heads =
            (groups == nullptr ? config.at("num_attention_heads") : *groups).as_integer();
      }
      all.emplace(own, std::move(entry));
    }
    return all;
  }

  std::string own_name(const std::string& name) const {
    const std::size_t dot = name.rfind('.');
    const std::string stem = name.substr(0, dot),
                      end = dot == std::string::npos ? "" : name.substr(dot);
    if (end == ".weight" || end == ".bias") {
      const auto outside = std::ranges::find(kGgufOutside, stem, &GgufName::theirs);
      if (outside != kGgufOutside.end()) return std::string(outside->own) + end;
      const std::size_t number = stem.find('.', 4);
      if (stem.starts_with("blk.") && number != std::string::npos) {
        const auto inside =
            std::ranges::find(kGgufBlock, stem.substr(number + 1), &GgufName::theirs);
        if (inside != kGgufBlock.end()) {
          return format("model.layers.{}.{}{}", stem.substr(4, number - 4), inside->own, end);
        }
      }
    }
    fail(ErrorCode::kUnimplemented, "'{}': tensor '{}' has no place in a model of {}", origin_,
         name, architecture_);
  }

  const GgufFile& file_;
  std::string origin_;
  std::string architecture_;
  std::string scaling_;
};

}  // namespace

GgufModel gguf_model(const GgufFile& file, std::string_view origin) {
  return GgufTranslation(file, origin).run();
}

}  // namespace harmonics::inline in_models
