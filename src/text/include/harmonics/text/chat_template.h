// Chat templates: how a conversation is written down for a model.
//
// They come with the model as text in the language of Jinja. What is read here is a small part of
// that language, without anything that could reach outside of it: conditions, loops over lists,
// variables, and functions on texts and lists. A word that is not known is an Error that names it
// and its line, when the template is read; nothing is left out silently.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/json.h>

namespace harmonics::inline in_text {

inline constexpr std::size_t kMaxTemplateBytes = std::size_t{256} << 10;
inline constexpr int kMaxTemplateDepth = 64;
/// Steps of one rendering, and bytes that it may write.
inline constexpr std::size_t kMaxTemplateSteps = 1'000'000;
inline constexpr std::size_t kMaxTemplateOutput = std::size_t{32} << 20;

struct ChatMessage {
  std::string role;
  std::string content;
};

/// A template that has been read. It never changes: any thread.
class ChatTemplate {
 public:
  /// Anything that is not known, or does not fit together, is an Error (kInvalidArgument) with its
  /// line; `name` says whose template it is.
  ChatTemplate(std::string_view text, std::string_view name);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// Writes the conversation, ready for the assistant's answer. `variables` is an object of what
  /// else the template may ask for, such as bos_token. What the template raises is an Error.
  [[nodiscard]] std::string render(const std::vector<ChatMessage>& messages,
                                   const Json& variables) const;
  /// The same with any variables.
  [[nodiscard]] std::string render(const Json& variables) const;

  struct Program;

 private:
  std::unique_ptr<const Program> program_;
};

}  // namespace harmonics::inline in_text
