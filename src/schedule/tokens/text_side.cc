#include <harmonics/schedule/text_side.h>

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {

TextSide::TextSide(const std::filesystem::path& source) : TextSide(model_texts(source)) {}

TextSide::TextSide(ModelTexts texts)
    : origin_(texts.origin),
      tokenizer_(Tokenizer::parse(texts.tokenizer, texts.origin)),
      variables_(std::move(texts.variables)),
      end_ids_(std::move(texts.end_ids)) {
  if (!texts.chat_template.empty()) {
    chat_.emplace(texts.chat_template, format("the chat template of {}", origin_));
  }
  for (const std::string& token : texts.end_tokens) {
    const auto id = tokenizer_.id_of(token);
    if (id && std::ranges::find(end_ids_, *id) == end_ids_.end()) end_ids_.push_back(*id);
  }
}

std::vector<std::int64_t> TextSide::prompt(const std::string& text) const {
  return tokenizer_.encode(text).ids;
}

std::vector<std::int64_t> TextSide::prompt(const std::vector<ChatMessage>& messages) const {
  if (!chat_) {
    fail(ErrorCode::kFailedPrecondition,
         "{} has no chat template: ask for a plain completion, or name a folder or GGUF file that "
         "has one with --tokenizer",
         origin_);
  }
  EncodeOptions options;
  options.special_tokens = false;  // the template writes them
  return tokenizer_.encode(chat_->render(messages, variables_), options).ids;
}

}  // namespace harmonics::inline in_schedule
