#include <harmonics/text/text_flow.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace harmonics::inline in_text {
namespace {

// A token's text can change with the next ones, but not with those this far behind it.
constexpr std::size_t kSettleAfter = 16;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The longest end of `text` that is the start of a stop.
std::size_t possible_stop(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace

TextFlow::TextFlow(const Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(tokenizer), stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string TextFlow::add(std::int64_t id) {
  ids_.push_back(id);
  const std::string all = settled_ + tokenizer_.decode(std::span(ids_).subspan(first_));
  settle(all);
  return release(all, false);
}

// So that a long text is not decoded from its start at every token.
void TextFlow::settle(const std::string& all) {
  const std::span<const std::int64_t> open = std::span(ids_).subspan(first_);
  if (open.size() <= 2 * kSettleAfter) return;
  const std::string older = settled_ + tokenizer_.decode(open.first(kSettleAfter));
  if (older + tokenizer_.decode(open.subspan(kSettleAfter)) != all) return;
  settled_ = older;
  first_ += kSettleAfter;
}

std::string TextFlow::finish() {
  return release(settled_ + tokenizer_.decode(std::span(ids_).subspan(first_)), true);
}

std::string TextFlow::release(const std::string& all, bool last) {
  if (stopped_) return {};
  std::size_t end = all.size();
  for (const std::string& stop : stops_) {
    const std::size_t from = given_.size() >= stop.size() ? given_.size() - stop.size() + 1 : 0;
    const std::size_t at = all.find(stop, from);
    if (at == std::string::npos || at >= end) continue;
    end = at;
    stopped_ = true;
  }
  if (!stopped_ && !last) {
    while (std::string_view(all).substr(0, end).ends_with(kReplacement)) {
      end -= kReplacement.size();
    }
    end -= possible_stop(std::string_view(all).substr(0, end), stops_);
  }
  if (end <= given_.size()) return {};
  std::string fresh = all.substr(given_.size(), end - given_.size());
  given_ += fresh;
  return fresh;
}

}  // namespace harmonics::inline in_text
