// What a section's "pattern" finds: a text as it stands, or a regular expression.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "section.h"
#include "unicode.h"

namespace harmonics::inline in_text {

/// A text may not grow beyond this by being replaced.
inline constexpr std::size_t kMaxReplacedBytes = std::size_t{128} << 20;

/// {"String": …} or {"Regex": …}. Never changes; many threads.
class Finder {
 public:
  explicit Finder(const Section& pattern);

  /// Where it matches, from left to right, none inside another.
  [[nodiscard]] std::vector<Span> matches(std::string_view text) const;
  /// `text` with `content` in the place of every match.
  [[nodiscard]] std::string replaced(std::string_view text, std::string_view content) const;
  /// The expression as the file spells it; empty for a plain text.
  [[nodiscard]] const std::string& expression() const { return expression_; }

 private:
  std::string expression_;
  std::variant<std::string, Pattern> what_;
};

/// Where `wanted`, which is not empty, stands in `text`.
[[nodiscard]] std::vector<Span> places_of(std::string_view text, std::string_view wanted);

/// `text` with `content` in the place of every `wanted`.
[[nodiscard]] std::string with_replaced(std::string_view text, std::string_view wanted,
                                        std::string_view content);

}  // namespace harmonics::inline in_text
