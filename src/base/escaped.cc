#include <harmonics/base/escaped.h>

#include <algorithm>

#include <harmonics/base/format.h>

#include "utf8.h"

namespace harmonics::inline in_base {
namespace {

/// Lines are broken, or their direction turned, by these.
bool breaks_lines(std::uint32_t code) {
  return code == 0x061C || (code >= 0x200E && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string control_text(std::uint32_t code) {
  switch (code) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return format("\\x{:02x}", code);
  }
}

std::string escaped_but(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character first = first_utf8(text);
    const std::size_t length = std::max<std::size_t>(first.bytes, 1);
    const bool control = first.code < 0x20 || (first.code >= 0x7F && first.code < 0xA0);
    if (first.bytes == 0) {
      out += format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (control && kept.find(text[0]) == kept.npos) {
      out += control_text(first.code);
    } else if (breaks_lines(first.code)) {
      out += format("\\u{:04x}", first.code);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string escaped(std::string_view text) { return escaped_but(text, {}); }

std::string escaped_lines(std::string_view text) { return escaped_but(text, "\n\t"); }

std::string escaped_json(std::string_view json) {
  constexpr std::uint32_t kReplacement = 0xFFFD;
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const Utf8Character first = first_utf8(json);
    const std::size_t length = std::max<std::size_t>(first.bytes, 1);
    const bool control = first.code >= 0x7F && first.code < 0xA0;
    if (first.bytes == 0 || control || breaks_lines(first.code)) {
      out += format("\\u{:04x}", first.bytes == 0 ? kReplacement : first.code);
    } else {
      out += json.substr(0, length);
    }
    json.remove_prefix(length);
  }
  return out;
}

}  // namespace harmonics::inline in_base
