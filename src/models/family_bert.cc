// BERT (MiniLM among them), RoBERTa and DistilBERT: blocks that normalise after each sum.
#include <harmonics/base/format.h>

#include "model_family.h"

namespace harmonics::inline in_models {
namespace {

constexpr std::string_view kBertProducers = R"(
  %axis%
  producer input_ids {T} int64;%types_producer%
  producer attention_mask {T} int64;
%heads_nodes%
  group embeddings {
    layer embeddings.word embedding(rows=%vocabulary%, width=%width%, scale=0.02);%types_layers%
    layer embeddings.position position(rows=%positions%, offset=%first_position%);
    layer hidden.0 layer_norm(eps=%eps%);
  }
  repeat %blocks% as i {
    group encoder.layer.$(i-1) {
      layer encoder.layer.$(i-1).attention attention(heads=%heads%, separate=true);
      layer encoder.layer.$(i-1).attention_sum add;
      layer encoder.layer.$(i-1).attention_norm layer_norm(eps=%eps%);
      layer encoder.layer.$(i-1).intermediate linear(%inner%);
      layer encoder.layer.$(i-1).output linear(%width%);
      layer encoder.layer.$(i-1).output_sum add;
      layer hidden.$i layer_norm(eps=%eps%);
    }
  }
%head_layers%
  cycle {
    %embedded% -> embeddings.position -> hidden.0;
    repeat %blocks% as i {
      hidden.$(i-1), attention_mask -> encoder.layer.$(i-1).attention;
      encoder.layer.$(i-1).attention, hidden.$(i-1) -> encoder.layer.$(i-1).attention_sum
        -> encoder.layer.$(i-1).attention_norm
        -(%activation%)-> encoder.layer.$(i-1).intermediate -> encoder.layer.$(i-1).output;
      encoder.layer.$(i-1).output, encoder.layer.$(i-1).attention_norm
        -> encoder.layer.$(i-1).output_sum -> hidden.$i;
    }
%head_flows%  }
)";

constexpr std::string_view kTypesLayers = R"(
    layer embeddings.type embedding(rows=%types%, width=%width%, scale=0.02);
    layer embeddings.sum add;)";

const std::vector<NameRow> kBertNames = {
    {"embeddings.word", "embeddings.word_embeddings"},
    {"embeddings.type", "embeddings.token_type_embeddings"},
    {"embeddings.position", "embeddings.position_embeddings"},
    {"hidden.0", "embeddings.LayerNorm"},
    {"encoder.layer.$(i-1).attention.q", "encoder.layer.$(i-1).attention.self.query"},
    {"encoder.layer.$(i-1).attention.k", "encoder.layer.$(i-1).attention.self.key"},
    {"encoder.layer.$(i-1).attention.v", "encoder.layer.$(i-1).attention.self.value"},
    {"encoder.layer.$(i-1).attention.out", "encoder.layer.$(i-1).attention.output.dense"},
    {"encoder.layer.$(i-1).attention_norm", "encoder.layer.$(i-1).attention.output.LayerNorm"},
    {"encoder.layer.$(i-1).intermediate", "encoder.layer.$(i-1).intermediate.dense"},
    {"encoder.layer.$(i-1).output", "encoder.layer.$(i-1).output.dense"},
    {"hidden.$i", "encoder.layer.$(i-1).output.LayerNorm"},
    {"pooler", "pooler.dense"},
};

const std::vector<NameRow> kDistilBertNames = {
    {"embeddings.word", "embeddings.word_embeddings"},
    {"embeddings.position", "embeddings.position_embeddings"},
    {"hidden.0", "embeddings.LayerNorm"},
    {"encoder.layer.$(i-1).attention.q", "transformer.layer.$(i-1).attention.q_lin"},
    {"encoder.layer.$(i-1).attention.k", "transformer.layer.$(i-1).attention.k_lin"},
    {"encoder.layer.$(i-1).attention.v", "transformer.layer.$(i-1).attention.v_lin"},
    {"encoder.layer.$(i-1).attention.out", "transformer.layer.$(i-1).attention.out_lin"},
    {"encoder.layer.$(i-1).attention_norm", "transformer.layer.$(i-1).sa_layer_norm"},
    {"encoder.layer.$(i-1).intermediate", "transformer.layer.$(i-1).ffn.lin1"},
    {"encoder.layer.$(i-1).output", "transformer.layer.$(i-1).ffn.lin2"},
    {"hidden.$i", "transformer.layer.$(i-1).output_layer_norm"},
};

/// What stands above the last block.
struct Head {
  std::string nodes;
  std::string layers;
  std::string flows;
  std::vector<NameRow> names = {};

  void consumer(std::string_view name) { nodes += format("  consumer {};\n", name); }
  void add(std::string_view layers_text, std::string_view flows_text) {
    layers += layers_text;
    flows += flows_text;
  }
};

void add_labels(Head& head) {
  head.nodes += "  producer labels {1} int64;\n";
  head.consumer("logits");
  head.flows += "    classifier -> logits;\n    classifier <-(cross_entropy)- labels;\n";
}

void add_pooler(Head& head, const std::string& last, const Placeholders& values) {
  head.add(filled("  group pooler {\n    layer pooler.first select(index=0);\n"
                  "    layer pooler linear(%width%);\n  }\n",
                  values),
           format("    {} -> pooler.first -(tanh)-> pooler;\n", last));
}

// A linear layer over the first token (after a layer of its own), as classifiers of texts have it.
void add_classifier(Head& head, const std::string& input, std::int64_t labels) {
  head.add(format("  group head {{ layer classifier linear({}); }}\n", labels),
           format("    {} -> classifier;\n", input));
  head.names.push_back({"classifier", "/classifier"});
  add_labels(head);
}

void add_masked_words(Head& head, const std::string& last, const Placeholders& values) {
  head.consumer("logits");
  head.add(filled(R"(  group head {
    layer head.transform linear(%width%);
    layer head.norm layer_norm(eps=%eps%);
    layer head.words linear(%vocabulary%, tie=embeddings.word.weight);
  }
)",
                  values),
           filled(format("    {} -(%activation%)-> head.transform -> head.norm -> head.words -> "
                         "logits;\n",
                         last),
                  values));
  head.names.insert(head.names.end(), {{"head.transform", "/cls.predictions.transform.dense"},
                                       {"head.norm", "/cls.predictions.transform.LayerNorm"},
                                       {"head.words.bias", "/cls.predictions.bias"}});
}

Head bert_head(const DraftRequest& request, const std::string& architecture,
               const Placeholders& values) {
  Head head;
  const std::string last = format("hidden.{}", values.at("blocks"));
  if (architecture == "BertForMaskedLM") {
    add_masked_words(head, last, values);
    return head;
  }
  if (architecture == "RobertaForSequenceClassification") {
    head.add(filled("  group head {\n    layer head.first select(index=0);\n"
                    "    layer head.dense linear(%width%);\n",
                    values) +
                 format("    layer classifier linear({});\n  }}\n",
                        request.class_count("/classifier.out_proj.weight")),
             format("    {} -> head.first -(tanh)-> head.dense -> classifier;\n", last));
    head.names = {{"head.dense", "/classifier.dense"}, {"classifier", "/classifier.out_proj"}};
    add_labels(head);
    return head;
  }
  if (architecture == "BertForSequenceClassification") {
    add_pooler(head, last, values);
    add_classifier(head, "pooler", request.class_count("/classifier.weight"));
    return head;
  }
  head.consumer("last_hidden_state");
  head.flows += format("    {} -> last_hidden_state;\n", last);
  if (request.has("pooler.dense.weight")) {
    add_pooler(head, last, values);
    head.consumer("pooler_output");
    head.flows += "    pooler -> pooler_output;\n";
  }
  return head;
}

ModelDraft bert_text(Head head, Placeholders values, std::vector<NameRow> names,
                     std::int64_t blocks) {
  values["heads_nodes"] = head.nodes;
  values["head_layers"] = head.layers;
  values["head_flows"] = head.flows;
  names.insert(names.end(), head.names.begin(), head.names.end());
  return {filled(kBertProducers, values), std::move(names), blocks, {"embeddings.position_ids"}};
}

Placeholders with_types(Placeholders values, std::int64_t types) {
  values["types"] = std::to_string(types);
  values["types_producer"] = "\n  producer token_type_ids {T} int64;";
  values["types_layers"] = filled(kTypesLayers, values);
  values["embedded"] =
      "input_ids -> embeddings.word;\n    token_type_ids -> embeddings.type;\n"
      "    embeddings.word, embeddings.type -> embeddings.sum";
  return values;
}

// RoBERTa counts positions from the row behind that of padding.
ModelDraft draft_bert(DraftRequest& request, const std::string& architecture) {
  ModelConfig& config = request.config;
  const bool roberta = architecture.starts_with("Roberta");
  config.expect("position_embedding_type", "absolute");
  config.expect("is_decoder", false);
  config.expect("add_cross_attention", false);
  config.expect("pruned_heads", Json::object());
  config.expect("tie_word_embeddings", true);
  config.leave_out({"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"});
  const Json* padding = config.take("pad_token_id");
  const std::int64_t first = roberta ? (padding == nullptr ? 1 : padding->as_integer()) + 1 : 0;
  const std::int64_t positions = config.whole("max_position_embeddings", 512);
  const std::int64_t blocks = config.whole("num_hidden_layers");
  Placeholders values = {
      {"axis", request.axis(positions - first)},
      {"vocabulary", std::to_string(config.whole("vocab_size"))},
      {"width", std::to_string(config.whole("hidden_size"))},
      {"positions", std::to_string(positions)},
      {"first_position", std::to_string(first)},
      {"eps", format("{}", config.real("layer_norm_eps", 1e-12))},
      {"blocks", std::to_string(blocks)},
      {"heads", std::to_string(config.whole("num_attention_heads"))},
      {"inner", std::to_string(config.whole("intermediate_size"))},
      {"activation", config.activation("hidden_act", "gelu")},
  };
  values = with_types(std::move(values), config.whole("type_vocab_size", 2));
  ModelDraft draft =
      bert_text(bert_head(request, architecture, values), values, kBertNames, blocks);
  if (architecture == "BertForMaskedLM") {
    draft.unneeded.insert(draft.unneeded.end(),
                          {"/cls.predictions.decoder.weight", "/cls.predictions.decoder.bias",
                           "*cls.seq_relationship.weight", "*cls.seq_relationship.bias",
                           "pooler.dense.weight", "pooler.dense.bias"});
  }
  return draft;
}

Head distilbert_head(const DraftRequest& request, const std::string& architecture,
                     const Placeholders& values) {
  Head head;
  const std::string last = format("hidden.{}", values.at("blocks"));
  if (architecture == "DistilBertModel") {
    head.consumer("last_hidden_state");
    head.flows += format("    {} -> last_hidden_state;\n", last);
    return head;
  }
  head.add(filled("  group head {\n    layer head.first select(index=0);\n"
                  "    layer head.dense linear(%width%);\n",
                  values) +
               format("    layer classifier linear({});\n  }}\n",
                      request.class_count("/classifier.weight")),
           format("    {} -> head.first -(relu)-> head.dense -> classifier;\n", last));
  head.names = {{"head.dense", "/pre_classifier"}, {"classifier", "/classifier"}};
  add_labels(head);
  return head;
}

ModelDraft draft_distilbert(DraftRequest& request, const std::string& architecture) {
  ModelConfig& config = request.config;
  config.expect("tie_weights_", true);
  config.expect("tie_word_embeddings", true);
  config.pass_over({"sinusoidal_pos_embds", "output_past"});  // the rows are in the file either way
  config.leave_out({"dropout", "attention_dropout", "seq_classif_dropout", "qa_dropout"});
  const std::int64_t positions = config.whole("max_position_embeddings", 512);
  const std::int64_t blocks = config.whole("n_layers");
  const Placeholders values = {
      {"axis", request.axis(positions)},
      {"vocabulary", std::to_string(config.whole("vocab_size"))},
      {"width", std::to_string(config.whole("dim"))},
      {"positions", std::to_string(positions)},
      {"first_position", "0"},
      {"eps", "1e-12"},
      {"blocks", std::to_string(blocks)},
      {"heads", std::to_string(config.whole("n_heads"))},
      {"inner", std::to_string(config.whole("hidden_dim"))},
      {"activation", config.activation("activation", "gelu")},
      {"types_producer", ""},
      {"types_layers", ""},
      {"embedded", "input_ids -> embeddings.word"},
  };
  return bert_text(distilbert_head(request, architecture, values), values, kDistilBertNames,
                   blocks);
}

}  // namespace

std::vector<ModelFamily> bert_families() {
  return {{"bert",
           "bert.",
           {"BertModel", "BertForSequenceClassification", "BertForMaskedLM"},
           draft_bert,
           "BertForSequenceClassification"},
          {"roberta",
           "roberta.",
           {"RobertaModel", "RobertaForSequenceClassification"},
           draft_bert,
           "RobertaForSequenceClassification"},
          {"distilbert",
           "distilbert.",
           {"DistilBertModel", "DistilBertForSequenceClassification"},
           draft_distilbert,
           "DistilBertForSequenceClassification"}};
}

}  // namespace harmonics::inline in_models
