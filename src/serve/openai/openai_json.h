// Answers as OpenAI's API spells them (private to serve_text). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/schedule/token_generator.h>
#include <harmonics/text/tokenizer.h>

#include "openai/openai_call.h"

namespace harmonics::inline in_serve {

struct CompletionUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
};

/// One answer, whole or as far as it has come.
struct CompletionChoice {
  std::int64_t index = 0;
  std::string text = {};
  std::vector<GeneratedToken> tokens = {};
  /// "stop", "length", or empty while it grows.
  std::string finish = {};
};

/// What all answers to one request have in common.
struct CompletionHead {
  std::string id;
  std::int64_t created = 0;
  std::string model;
  bool chat = false;
  bool logprobs = false;
};

[[nodiscard]] std::string completion_json(const CompletionHead& head, const Tokenizer& tokenizer,
                                          const std::vector<CompletionChoice>& choices,
                                          const CompletionUsage& usage);
/// One event of a stream; `first`: the assistant begins to speak.
[[nodiscard]] std::string chunk_event(const CompletionHead& head, const Tokenizer& tokenizer,
                                      const CompletionChoice& choice, bool first);
[[nodiscard]] std::string usage_event(const CompletionHead& head, const CompletionUsage& usage);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

/// Vectors in the order of their texts; as numbers, or as base64 of little-endian float32.
[[nodiscard]] std::string embeddings_json(const std::string& model, bool base64,
                                          const std::vector<std::vector<float>>& vectors,
                                          std::int64_t tokens);
[[nodiscard]] std::string models_json(const std::string& name, std::int64_t created);
[[nodiscard]] std::string openai_error(std::string_view what, int status);

}  // namespace harmonics::inline in_serve
