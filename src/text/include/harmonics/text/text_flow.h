// TextFlow: the text of tokens that come one by one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/text/tokenizer.h>

namespace harmonics::inline in_text {

/// Gives out text as soon as it is certain: the bytes of one character may lie in several tokens,
/// and what may become a stop text is held back. Not thread safe; the tokenizer must outlive it.
class TextFlow {
 public:
  /// Empty stop texts are passed over.
  TextFlow(const Tokenizer& tokenizer, std::vector<std::string> stops);

  /// The new text that this token makes certain; nothing after a stop text came.
  [[nodiscard]] std::string add(std::int64_t id);
  /// What was held back for want of a next token.
  [[nodiscard]] std::string finish();
  /// A stop text came; neither it nor what followed was given out.
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// All that was given out.
  [[nodiscard]] const std::string& text() const { return given_; }

 private:
  void settle(const std::string& all);
  [[nodiscard]] std::string release(const std::string& all, bool last);

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::vector<std::int64_t> ids_;
  std::size_t first_ = 0;  // ids before it are settled
  std::string settled_;    // and their text
  std::string given_;
  bool stopped_ = false;
};

}  // namespace harmonics::inline in_text
