#include "replacement.h"

namespace harmonics::inline in_text {
namespace {

std::variant<std::string, Pattern> finder_of(const Section& pattern) {
  pattern.only({"String", "Regex"});
  if (pattern.has("String") == pattern.has("Regex")) {
    pattern.refuse("must be a String or a Regex");
  }
  if (pattern.has("String")) {
    if (pattern.text("String").empty()) pattern.refuse("is empty");
    return pattern.text("String");
  }
  try {
    return Pattern(pattern.text("Regex"));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", pattern.place(), std::string_view(error.what()));
  }
}

std::string replaced_at(std::string_view text, const std::vector<Span>& places,
                        std::string_view content) {
  const std::size_t most = text.size() + places.size() * content.size();
  if (most > kMaxReplacedBytes) {
    fail(ErrorCode::kResourceExhausted,
         "a replacement would make {} bytes of a text of {}, at most {}: split the text", most,
         text.size(), kMaxReplacedBytes);
  }
  std::string out;
  std::size_t at = 0;
  for (const Span place : places) {
    out += text.substr(at, place.begin - at);
    out += content;
    at = place.end;
  }
  out += text.substr(at);
  return out;
}

}  // namespace

Finder::Finder(const Section& pattern)
    : expression_(pattern.text_or_empty("Regex")), what_(finder_of(pattern)) {}

std::vector<Span> Finder::matches(std::string_view text) const {
  if (const auto* expression = std::get_if<Pattern>(&what_)) return expression->matches(text);
  return places_of(text, std::get<std::string>(what_));
}

std::string Finder::replaced(std::string_view text, std::string_view content) const {
  return replaced_at(text, matches(text), content);
}

std::vector<Span> places_of(std::string_view text, std::string_view wanted) {
  std::vector<Span> places;
  for (std::size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    places.push_back(
        {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + wanted.size())});
  }
  return places;
}

std::string with_replaced(std::string_view text, std::string_view wanted,
                          std::string_view content) {
  return replaced_at(text, places_of(text, wanted), content);
}

}  // namespace harmonics::inline in_text
