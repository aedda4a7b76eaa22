#include <harmonics/settings/source_text.h>

#include <harmonics/base/format.h>

namespace harmonics::inline in_settings {

bool has_setting(std::string_view source, std::string_view key) {
  for (std::size_t at = source.find('?'); at != std::string_view::npos;
       at = source.find('&', at + 1)) {
    const std::string_view rest = source.substr(at + 1);
    if (rest.starts_with(key) && rest.substr(key.size()).starts_with('=')) return true;
  }
  return false;
}

std::string with_setting(std::string_view source, std::string_view key, std::string_view value) {
  const std::size_t query = source.find('?');
  const bool first = query == std::string_view::npos;
  const bool empty = !first && query + 1 == source.size();
  std::string text = format("{}{}{}=", source, first ? "?" : empty ? "" : "&", key);
  for (const char c : value) {
    if (c == '&') {
      text += "%26";
    } else if (c == '%') {
      text += "%25";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace harmonics::inline in_settings
