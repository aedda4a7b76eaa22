// One answer of `harmonics generate` while it grows, and what is printed of it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/schedule/text_side.h>
#include <harmonics/schedule/token_generator.h>
#include <harmonics/text/text_flow.h>

namespace harmonics::inline in_text_program {

class GrowingAnswer {
 public:
  GrowingAnswer(const TextSide& texts, std::size_t prompt_tokens,
                const std::vector<std::string>& stops)
      : flow_(texts.tokenizer(), stops),
        prompt_tokens_(prompt_tokens),
        started_(std::chrono::steady_clock::now()) {}

  /// The new text; sees the token as well.
  [[nodiscard]] std::string add(const GeneratedToken& token);
  /// The rest of the text.
  [[nodiscard]] std::string end(Ending ending);
  [[nodiscard]] bool stopped() const { return flow_.stopped(); }
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] const std::string& text() const { return flow_.text(); }
  [[nodiscard]] std::size_t tokens() const { return tokens_.size(); }
  /// {"text", "tokens", "logprobs", "end", "prompt_tokens", "first_token_s", "seconds"}.
  [[nodiscard]] Json json() const;

 private:
  TextFlow flow_;
  std::size_t prompt_tokens_;
  std::chrono::steady_clock::time_point started_, first_, ended_;
  std::vector<GeneratedToken> tokens_;
  Ending ending_ = Ending::kEnough;
  bool over_ = false;
};

}  // namespace harmonics::inline in_text_program
