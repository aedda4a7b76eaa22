#include "model_config.h"

#include <algorithm>
#include <array>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_models {
namespace {

constexpr std::int64_t kMaxConfigNumber = std::int64_t{1} << 31;
constexpr std::size_t kMaxShownValue = 60;

/// Names of other tools, how text is made, names of labels: nothing that a graph computes with.
constexpr std::array<std::string_view, 48> kNoBearing = {"_name_or_path",
                                                         "transformers_version",
                                                         "torch_dtype",
                                                         "dtype",
                                                         "initializer_range",
                                                         "initializer_factor",
                                                         "use_cache",
                                                         "pad_token_id",
                                                         "bos_token_id",
                                                         "eos_token_id",
                                                         "sep_token_id",
                                                         "cls_token_id",
                                                         "mask_token_id",
                                                         "unk_token_id",
                                                         "decoder_start_token_id",
                                                         "id2label",
                                                         "label2id",
                                                         "num_labels",
                                                         "_num_labels",
                                                         "gradient_checkpointing",
                                                         "return_dict",
                                                         "output_hidden_states",
                                                         "output_attentions",
                                                         "torchscript",
                                                         "task_specific_params",
                                                         "problem_type",
                                                         "finetuning_task",
                                                         "tokenizer_class",
                                                         "_attn_implementation",
                                                         "_attn_implementation_autoset",
                                                         "attn_implementation",
                                                         "chunk_size_feed_forward",
                                                         "max_length",
                                                         "min_length",
                                                         "do_sample",
                                                         "num_beams",
                                                         "temperature",
                                                         "top_k",
                                                         "top_p",
                                                         "typical_p",
                                                         "repetition_penalty",
                                                         "length_penalty",
                                                         "no_repeat_ngram_size",
                                                         "early_stopping",
                                                         "num_return_sequences",
                                                         "prefix",
                                                         "tie_encoder_decoder",
                                                         "bad_words_ids"};

/// How the activations of others are called here.
struct ActivationName {
  std::string_view theirs;
  std::string_view own;
};
constexpr std::array kActivationNames = {
    ActivationName{"gelu", "gelu"},
    ActivationName{"gelu_new", "gelu_tanh"},
    ActivationName{"gelu_pytorch_tanh", "gelu_tanh"},
    ActivationName{"quick_gelu", "quick_gelu"},
    ActivationName{"relu", "relu"},
    ActivationName{"silu", "silu"},
    ActivationName{"swish", "silu"},
    ActivationName{"tanh", "tanh"},
};

std::string shown(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= kMaxShownValue ? text : text.substr(0, kMaxShownValue) + "…";
}

}  // namespace

ModelConfig::ModelConfig(Json json, std::string origin)
    : json_(std::move(json)), origin_(std::move(origin)) {
  if (!json_.is_object()) {
    fail(ErrorCode::kInvalidArgument, "{} is not a JSON object", origin_);
  }
  for (const std::string_view key : kNoBearing) taken_.emplace(key);
  pass_over({"architectures", "model_type"});
}

const Json* ModelConfig::take(std::string_view key) {
  taken_.emplace(key);
  const Json* value = json_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::int64_t ModelConfig::whole(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr) {
    fail(ErrorCode::kInvalidArgument, "{} has no '{}', which this architecture needs", origin_,
         key);
  }
  if (!value->is_integer() || value->as_integer() < 1 || value->as_integer() > kMaxConfigNumber) {
    refuse(key, "it must be a whole number of at least 1");
  }
  return value->as_integer();
}

std::int64_t ModelConfig::whole(std::string_view key, std::int64_t fallback) {
  return take(key) == nullptr ? fallback : whole(key);
}

double ModelConfig::real(std::string_view key, double fallback) {
  const Json* value = take(key);
  return value == nullptr ? fallback : value->as_number();
}

std::string ModelConfig::text(std::string_view key, std::string_view fallback) {
  const Json* value = take(key);
  return value == nullptr ? std::string(fallback) : value->as_string();
}

bool ModelConfig::truth(std::string_view key, bool fallback) {
  const Json* value = take(key);
  return value == nullptr ? fallback : value->as_bool();
}

std::string ModelConfig::architecture() {
  const Json* names = take("architectures");
  return names == nullptr || names->as_array().empty() ? std::string()
                                                       : names->as_array().front().as_string();
}

std::string ModelConfig::activation(std::string_view key, std::string_view fallback) {
  const std::string name = text(key, fallback);
  const auto found = std::ranges::find(kActivationNames, name, &ActivationName::theirs);
  if (found == kActivationNames.end()) {
    refuse(key, format("known are {}", listed(kActivationNames, [](const ActivationName& each) {
                         return std::string(each.theirs);
                       })));
  }
  return std::string(found->own);
}

void ModelConfig::expect(std::string_view key, const Json& value) {
  const Json* found = take(key);
  if (found == nullptr) return;
  const bool equal =
      found->dump() == value.dump() || (found->is_integer() && !value.is_string() &&
                                        value.dump() == "0.0" && found->as_integer() == 0);
  if (!equal) refuse(key, format("only {} is", value.dump()));
}

void ModelConfig::pass_over(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) taken_.emplace(key);
}

void ModelConfig::leave_out(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const Json* value = take(key);
    if (value != nullptr && value->as_number() != 0) {
      left_out_.push_back(format("{} = {}", key, shown(*value)));
    }
  }
}

void ModelConfig::finish() const {
  for (const auto& [key, value] : json_.as_object()) {
    if (!taken_.contains(key)) refuse(key, "this architecture's importer does not know it");
  }
}

void ModelConfig::refuse(std::string_view key, const std::string& why) const {
  const Json* value = json_.find(key);
  fail(ErrorCode::kUnimplemented, "{}: '{}' = {} is not honoured: {}", origin_, key,
       value == nullptr ? "(absent)" : shown(*value), why);
}

}  // namespace harmonics::inline in_models
