// What a request to OpenAI's API asks for (private to serve_text). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/text/chat_template.h>
#include <harmonics/text/sampling.h>

namespace harmonics::inline in_serve {

inline constexpr std::int64_t kMaxChoices = 16;
inline constexpr std::size_t kMaxStops = 16;
inline constexpr std::size_t kMaxStopBytes = 1024;
inline constexpr std::int64_t kMaxTopLogprobs = 20;

/// A text, or ids.
using PromptText = std::variant<std::string, std::vector<std::int64_t>>;

struct CompletionCall {
  bool chat = false;
  std::string model;
  /// Of a chat.
  std::vector<ChatMessage> messages;
  /// Of a completion: each gets its answers.
  std::vector<PromptText> prompts;
  std::int64_t choices = 1;
  /// 0: what the service has for those that do not say.
  std::int64_t max_tokens = 0;
  SamplingOptions sampling;
  bool seeded = false;
  std::vector<std::string> stops;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  std::size_t likeliest = 0;
};

inline constexpr std::size_t kMaxEmbeddingInputs = 2048;

struct EmbeddingCall {
  std::string model;
  std::vector<PromptText> inputs;
  /// Vectors as text of base64, in place of numbers.
  bool base64 = false;
  /// 0: as many as the model gives.
  std::int64_t dimensions = 0;
};

/// Reads the body of a call for embeddings, as below.
[[nodiscard]] EmbeddingCall read_embedding_call(std::string_view body);

/// Reads a body. A member that is not known, or has a value that is not honoured, is an Error
/// (kInvalidArgument) that names it.
[[nodiscard]] CompletionCall read_completion_call(std::string_view body, bool chat);

}  // namespace harmonics::inline in_serve
