// The patterns by which byte-level tokenizers find words, written out by hand: they are on the path
// of every text, and a regular expression takes ten times as long.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "unicode.h"

namespace harmonics::inline in_text {

/// Appends the matches of a pattern that leaves nothing of a text unmatched.
using WordSplit = std::function<void(std::string_view text, Span whole, std::vector<Span>& out)>;

/// GPT-2's pattern, which ByteLevel uses.
void split_gpt2_words(std::string_view text, Span whole, std::vector<Span>& out);

/// The splitter for a pattern that is known here, as Llama-3 and Qwen2 spell it; else nothing.
[[nodiscard]] WordSplit known_word_split(std::string_view pattern);

}  // namespace harmonics::inline in_text
