// ViT and DeiT: pictures in patches, blocks that normalise before each part.
#include <harmonics/base/error.h>

#include "model_family.h"

namespace harmonics::inline in_models {
namespace {

constexpr std::string_view kVitBody = R"(
  producer pixel_values {%channels%, %size%, %size%};
%head_nodes%
  group embeddings {
    layer embeddings.patch conv2d(%width%, kernel=%patch%, stride=%patch%);
    layer embeddings.tokens tokens;%distillation_layer%
    layer embeddings.class class_token;
    layer hidden.0 position;
  }
  repeat %blocks% as i {
    group encoder.layer.$(i-1) {
      layer encoder.layer.$(i-1).norm_before layer_norm(eps=%eps%);
      layer encoder.layer.$(i-1).attention attention(heads=%heads%, separate=true, bias=%bias%);
      layer encoder.layer.$(i-1).attention_sum add;
      layer encoder.layer.$(i-1).norm_after layer_norm(eps=%eps%);
      layer encoder.layer.$(i-1).intermediate linear(%inner%);
      layer encoder.layer.$(i-1).output linear(%width%);
      layer hidden.$i add;
    }
  }
  group head {
    layer norm layer_norm(eps=%eps%);
%head_layers%  }

  cycle {
    pixel_values -> embeddings.patch -> embeddings.tokens%distillation_flow%
      -> embeddings.class -> hidden.0;
    repeat %blocks% as i {
      hidden.$(i-1) -> encoder.layer.$(i-1).norm_before -> encoder.layer.$(i-1).attention;
      encoder.layer.$(i-1).attention, hidden.$(i-1) -> encoder.layer.$(i-1).attention_sum
        -> encoder.layer.$(i-1).norm_after
        -(%activation%)-> encoder.layer.$(i-1).intermediate -> encoder.layer.$(i-1).output;
      encoder.layer.$(i-1).output, encoder.layer.$(i-1).attention_sum -> hidden.$i;
    }
    hidden.%blocks% -> norm;
%head_flows%  }
)";

const std::vector<NameRow> kVitNames = {
    {"embeddings.patch", "embeddings.patch_embeddings.projection"},
    {"embeddings.distillation.weight", "embeddings.distillation_token"},
    {"embeddings.class.weight", "embeddings.cls_token"},
    {"hidden.0.weight", "embeddings.position_embeddings"},
    {"encoder.layer.$(i-1).norm_before", "encoder.layer.$(i-1).layernorm_before"},
    {"encoder.layer.$(i-1).attention.q", "encoder.layer.$(i-1).attention.attention.query"},
    {"encoder.layer.$(i-1).attention.k", "encoder.layer.$(i-1).attention.attention.key"},
    {"encoder.layer.$(i-1).attention.v", "encoder.layer.$(i-1).attention.attention.value"},
    {"encoder.layer.$(i-1).attention.out", "encoder.layer.$(i-1).attention.output.dense"},
    {"encoder.layer.$(i-1).norm_after", "encoder.layer.$(i-1).layernorm_after"},
    {"encoder.layer.$(i-1).intermediate", "encoder.layer.$(i-1).intermediate.dense"},
    {"encoder.layer.$(i-1).output", "encoder.layer.$(i-1).output.dense"},
    {"norm", "layernorm"},
    {"pooler", "pooler.dense"},
    {"classifier", "/classifier"},
    {"classifier.class", "/cls_classifier"},
    {"classifier.distillation", "/distillation_classifier"},
};

/// What stands above the last block: nodes, layers and flows.
struct VitHead {
  std::string nodes;
  std::string layers;
  std::string flows;
};

VitHead hidden_head(const DraftRequest& request, const std::string& width) {
  VitHead head{"  consumer last_hidden_state;\n", "", "    norm -> last_hidden_state;\n"};
  if (!request.has("pooler.dense.weight")) return head;
  head.nodes += "  consumer pooler_output;\n";
  head.layers =
      format("    layer pooler.first select(index=0);\n    layer pooler linear({});\n", width);
  head.flows += "    norm -> pooler.first -(tanh)-> pooler -> pooler_output;\n";
  return head;
}

VitHead classifying_head(const DraftRequest& request) {
  return {"  producer labels {1} int64;\n  consumer logits;\n",
          format("    layer head.first select(index=0);\n    layer classifier linear({});\n",
                 request.class_count("/classifier.weight")),
          "    norm -> head.first -> classifier -> logits;\n"
          "    classifier <-(cross_entropy)- labels;\n"};
}

// The mean of what the class token and the distillation token say.
VitHead teacher_head(const DraftRequest& request) {
  const std::int64_t labels = request.rows("/cls_classifier.weight");
  return {"  consumer logits;\n  consumer cls_logits;\n  consumer distillation_logits;\n",
          format("    layer head.first select(index=0);\n"
                 "    layer classifier.class linear({0});\n"
                 "    layer head.class reshape(shape={{1, {0}}});\n"
                 "    layer head.second select(index=1);\n"
                 "    layer classifier.distillation linear({0});\n"
                 "    layer head.distillation reshape(shape={{1, {0}}});\n"
                 "    layer head.both concat(axis=0);\n    layer head.mean mean;\n",
                 labels),
          "    norm -> head.first -> classifier.class -> head.class;\n"
          "    norm -> head.second -> classifier.distillation -> head.distillation;\n"
          "    head.class, head.distillation -> head.both -> head.mean -> logits;\n"
          "    classifier.class -> cls_logits;\n"
          "    classifier.distillation -> distillation_logits;\n"};
}

VitHead vit_head(const DraftRequest& request, const std::string& architecture,
                 const std::string& width) {
  if (architecture.ends_with("WithTeacher")) return teacher_head(request);
  if (architecture.ends_with("Model")) return hidden_head(request, width);
  return classifying_head(request);
}

ModelDraft draft_vit(DraftRequest& request, const std::string& architecture) {
  ModelConfig& config = request.config;
  const bool deit = architecture.starts_with("DeiT");
  config.pass_over({"encoder_stride", "pooler_output_size", "pooler_act"});
  config.expect("pruned_heads", Json::object());
  config.leave_out({"hidden_dropout_prob", "attention_probs_dropout_prob"});
  const std::int64_t blocks = config.whole("num_hidden_layers");
  const std::int64_t size = config.whole("image_size", 224);
  const std::int64_t patch = config.whole("patch_size", 16);
  if (size % patch != 0) config.refuse("patch_size", format("it does not divide {}", size));
  const std::string width = std::to_string(config.whole("hidden_size"));
  const VitHead head = vit_head(request, architecture, width);
  const Placeholders values = {
      {"channels", std::to_string(config.whole("num_channels", 3))},
      {"size", std::to_string(size)},
      {"patch", std::to_string(patch)},
      {"width", width},
      {"blocks", std::to_string(blocks)},
      {"eps", format("{}", config.real("layer_norm_eps", 1e-12))},
      {"heads", std::to_string(config.whole("num_attention_heads"))},
      {"bias", config.truth("qkv_bias", true) ? "true" : "false"},
      {"inner", std::to_string(config.whole("intermediate_size"))},
      {"activation", config.activation("hidden_act", "gelu")},
      {"distillation_layer", deit ? "\n    layer embeddings.distillation class_token;" : ""},
      {"distillation_flow", deit ? " -> embeddings.distillation" : ""},
      {"head_nodes", head.nodes},
      {"head_layers", head.layers},
      {"head_flows", head.flows},
  };
  return {filled(kVitBody, values), kVitNames, blocks, {"embeddings.mask_token"}};
}

}  // namespace

std::vector<ModelFamily> vit_families() {
  return {{"vit",
           "vit.",
           {"ViTModel", "ViTForImageClassification"},
           draft_vit,
           "ViTForImageClassification"},
          {"deit",
           "deit.",
           {"DeiTModel", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"},
           draft_vit,
           "DeiTForImageClassification"}};
}

}  // namespace harmonics::inline in_models
