// GPT-2: learnt positions, causal attention, matrices that are stored with their inputs as rows.
#include <harmonics/base/format.h>

#include "model_family.h"

namespace harmonics::inline in_models {
namespace {

constexpr std::string_view kGpt2Body = R"(
  %axis%
  producer input_ids {T} int64;
%head_nodes%
  group embeddings {
    layer wte embedding(rows=%vocabulary%, width=%width%, scale=0.02);
    layer hidden.0 position(rows=%positions%);
  }
  repeat %blocks% as i {
    group h.$(i-1) {
      layer h.$(i-1).ln_1 layer_norm(eps=%eps%);
      layer h.$(i-1).attn attention(heads=%heads%, causal=true, separate=true);
      layer h.$(i-1).attn_sum add;
      layer h.$(i-1).ln_2 layer_norm(eps=%eps%);
      layer h.$(i-1).mlp.fc linear(%inner%);
      layer h.$(i-1).mlp.proj linear(%width%);
      layer hidden.$i add;
    }
  }
  group head {
    layer ln_f layer_norm(eps=%eps%);
%head_layers%  }

  cycle {
    input_ids -> wte -> hidden.0;
    repeat %blocks% as i {
      hidden.$(i-1) -> h.$(i-1).ln_1 -> h.$(i-1).attn;
      h.$(i-1).attn, hidden.$(i-1) -> h.$(i-1).attn_sum -> h.$(i-1).ln_2
        -(%activation%)-> h.$(i-1).mlp.fc -> h.$(i-1).mlp.proj;
      h.$(i-1).attn_sum, h.$(i-1).mlp.proj -> hidden.$i;
    }
    hidden.%blocks% -> ln_f;
%head_flows%  }
)";

std::vector<NameRow> gpt2_names(std::int64_t width) {
  const WeightLayout turned{.transposed = true};
  std::vector<NameRow> names = {
      {"wte", "wte"},
      {"hidden.0", "wpe"},
      {"h.$(i-1).ln_1", "h.$(i-1).ln_1"},
      {"h.$(i-1).attn.out.weight", "h.$(i-1).attn.c_proj.weight", turned},
      {"h.$(i-1).attn.out.bias", "h.$(i-1).attn.c_proj.bias"},
      {"h.$(i-1).ln_2", "h.$(i-1).ln_2"},
      {"h.$(i-1).mlp.fc.weight", "h.$(i-1).mlp.c_fc.weight", turned},
      {"h.$(i-1).mlp.fc.bias", "h.$(i-1).mlp.c_fc.bias"},
      {"h.$(i-1).mlp.proj.weight", "h.$(i-1).mlp.c_proj.weight", turned},
      {"h.$(i-1).mlp.proj.bias", "h.$(i-1).mlp.c_proj.bias"},
      {"ln_f", "ln_f"},
      {"lm_head", "/lm_head"},
  };
  // Queries, keys and values lie in one tensor.
  std::int64_t first = 0;
  for (const char* part : {"q", "k", "v"}) {
    names.push_back({format("h.$(i-1).attn.{}.weight", part),
                     "h.$(i-1).attn.c_attn.weight",
                     {.transposed = true, .first_row = first}});
    names.push_back(
        {format("h.$(i-1).attn.{}.bias", part), "h.$(i-1).attn.c_attn.bias", {.first_row = first}});
    first += width;
  }
  return names;
}

ModelDraft draft_gpt2(DraftRequest& request, const std::string& architecture) {
  ModelConfig& config = request.config;
  config.pass_over({"n_ctx", "summary_type", "summary_use_proj", "summary_activation",
                    "summary_proj_to_labels", "summary_first_dropout", "model_max_length"});
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.expect("reorder_and_upcast_attn", false);
  config.expect("add_cross_attention", false);
  config.leave_out({"resid_pdrop", "embd_pdrop", "attn_pdrop"});
  const bool tied = config.truth("tie_word_embeddings", true);
  const std::int64_t blocks = config.whole("n_layer"), width = config.whole("n_embd");
  const std::int64_t positions = config.whole("n_positions", 1024);
  const std::string vocabulary = std::to_string(config.whole("vocab_size"));
  const bool speaks = architecture == "GPT2LMHeadModel";
  const Placeholders values = {
      {"axis", request.axis(positions)},
      {"vocabulary", vocabulary},
      {"width", std::to_string(width)},
      {"positions", std::to_string(positions)},
      {"blocks", std::to_string(blocks)},
      {"eps", format("{}", config.real("layer_norm_epsilon", 1e-5))},
      {"heads", std::to_string(config.whole("n_head"))},
      {"inner", std::to_string(config.whole("n_inner", 4 * width))},
      {"activation", config.activation("activation_function", "gelu_new")},
      {"head_nodes", speaks ? "  producer labels {T} int64;\n  consumer logits;\n"
                            : "  consumer last_hidden_state;\n"},
      {"head_layers", speaks ? format("    layer lm_head linear({}, bias=false{});\n", vocabulary,
                                      tied ? ", tie=wte.weight" : "")
                             : std::string()},
      {"head_flows", speaks
                         ? "    ln_f -> lm_head -> logits;\n    lm_head <-(next_token)- labels;\n"
                         : "    ln_f -> last_hidden_state;\n"},
  };
  ModelDraft draft{
      filled(kGpt2Body, values), gpt2_names(width), blocks, {"*.attn.bias", "*.attn.masked_bias"}};
  if (tied) draft.unneeded.push_back("/lm_head.weight");
  return draft;
}

}  // namespace

std::vector<ModelFamily> gpt2_families() {
  return {{"gpt2", "transformer.", {"GPT2Model", "GPT2LMHeadModel"}, draft_gpt2}};
}

}  // namespace harmonics::inline in_models
