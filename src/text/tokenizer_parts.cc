#include "tokenizer_parts.h"

namespace harmonics::inline in_text {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 32;

Side side_of(const Section& section) {
  if (!section.has("direction")) return Side::kRight;
  return static_cast<Side>(section.choice("direction", {"Left", "Right"}));
}

void check_strategy(const Section& padding) {
  if (padding.value("strategy").is_string()) {
    padding.choice("strategy", {"BatchLongest"});
    return;
  }
  const Section strategy = padding.at("strategy");
  strategy.only({"Fixed"});
  strategy.count("Fixed", kMostTokens);
}

}  // namespace

Tokenizer::Parts::Parts(const Section& file) {
  file.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"});
  if (file.has("version") && file.text("version") != "1.0") {
    file.refuse(format("is of version {}; 1.0 can be read", file.text("version")));
  }
  if (file.has("normalizer")) normalizer = read_normalizer(file.at("normalizer"));
  if (file.has("pre_tokenizer")) pre_tokenizer = read_pre_tokenizer(file.at("pre_tokenizer"));
  model = read_token_model(file.at("model"));
  added = std::make_unique<AddedTokens>(file, model->vocabulary(), normalizer.get());
  if (file.has("post_processor")) post_processor = PostProcessor(file.at("post_processor"));
  if (file.has("decoder")) decoder = read_decoder(file.at("decoder"));
  read_lengths(file);
}

void Tokenizer::Parts::read_lengths(const Section& file) {
  for (const char* name : {"[PAD]", "<pad>"}) {
    if (const AddedToken* token = added->by_content(name)) pad_id = token->id;
  }
  if (file.has("truncation")) {
    const Section truncation = file.at("truncation");
    truncation.only({"direction", "max_length", "strategy", "stride"});
    truncation.choice("strategy", {"LongestFirst", "OnlyFirst", "OnlySecond"});
    truncation.count("max_length", kMostTokens);
    cut_side = side_of(truncation);
  }
  if (!file.has("padding")) return;
  const Section padding = file.at("padding");
  padding.only(
      {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  check_strategy(padding);
  fill_side = side_of(padding);
  pad_id = padding.count("pad_id", static_cast<std::int64_t>(kMaxVocabulary) - 1);
  pad_type = padding.count("pad_type_id", 255);
}

}  // namespace harmonics::inline in_text
