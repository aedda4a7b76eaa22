// Patterns of tokenizer.json are written for Oniguruma; ICU reads some of its escapes otherwise.
#pragma once

#include <string>
#include <string_view>

namespace harmonics::inline in_text {

inline constexpr std::size_t kMaxPatternBytes = 4096;

/// The same pattern as ICU spells it: \s, \w and their opposites become the sets that they mean.
/// What has another meaning there, or none, is an Error that names it.
[[nodiscard]] std::string icu_spelling(std::string_view pattern);

}  // namespace harmonics::inline in_text
