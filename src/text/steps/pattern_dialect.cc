#include "pattern_dialect.h"

#include <harmonics/base/error.h>

namespace harmonics::inline in_text {
namespace {

// Escapes that mean the same in both dialects, besides escaped punctuation.
constexpr std::string_view kSharedEscapes = "rntfvdDpPbBxuAZz0";

std::string_view spelled_out(char escape) {
  switch (escape) {
    case 's': return "\\p{White_Space}";
    case 'S': return "\\P{White_Space}";
    case 'w': return "[\\p{Alphabetic}\\p{M}\\p{N}\\p{Pc}]";
    case 'W': return "[^\\p{Alphabetic}\\p{M}\\p{N}\\p{Pc}]";
    default: return {};
  }
}

bool is_ascii_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The escape whose letter `from` begins with, and its braces: \p{Lu}, \x{2581}.
std::string_view braced(std::string_view from) {
  const std::size_t end = from.find('}');
  const bool braces = from.substr(1, 1) == "{" && end != from.npos;
  return from.substr(0, braces ? end + 1 : 1);
}

// A category holds what it held in the version of Unicode of the package.
std::string category_spelling(std::string_view property) {
  const bool category = (property.size() == 4 || property.size() == 5) && property[1] == '{' &&
                        std::string_view("LMNPS").find(property[2]) != property.npos;
  if (!category) return format("\\{}", property);
  const std::string set = format("[\\p{}&&\\p{{age=14.0}}]", property.substr(1));
  return property[0] == 'p' ? set : format("[^{}]", set);
}

}  // namespace

std::string icu_spelling(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    fail(ErrorCode::kInvalidArgument, "the pattern has {} bytes; {} can be read", pattern.size(),
         kMaxPatternBytes);
  }
  std::string out;
  int sets = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escape = pattern[++i];
      if (const auto spelled = spelled_out(escape); !spelled.empty()) {
        out += spelled;
      } else if (is_ascii_alphanumeric(escape) && kSharedEscapes.find(escape) == pattern.npos) {
        fail(ErrorCode::kUnimplemented, "the pattern '{}' uses \\{}, which is not known here",
             pattern, escape);
      } else {
        const std::string_view whole = braced(pattern.substr(i));
        const bool property = escape == 'p' || escape == 'P';
        out += property ? category_spelling(whole) : format("\\{}", whole);
        i += whole.size() - 1;
      }
      continue;
    }
    if (sets > 0 && (c == '&' || c == '-') && pattern.substr(i + 1, 1) == pattern.substr(i, 1)) {
      fail(ErrorCode::kUnimplemented,
           "the pattern '{}' computes with sets ({}{}), which is not known here", pattern, c, c);
    }
    if (c == '[') ++sets;
    if (c == ']' && sets > 0) --sets;
    // Within a set these are themselves; ICU would begin a string or a variable.
    if (sets > 0 && (c == '{' || c == '}' || c == '$')) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace harmonics::inline in_text
