// Lists in messages: "relu, sigmoid, tanh".
#pragma once

#include <functional>
#include <string>

namespace harmonics::inline in_base {

/// The items of a range with commas between them, or "none". `spell` turns an item into text (a
/// function or a pointer to a member).
template <typename Range, typename Spell = std::identity>
[[nodiscard]] std::string listed(const Range& items, Spell spell = {}) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += std::invoke(spell, item);
  }
  return text.empty() ? "none" : text;
}

}  // namespace harmonics::inline in_base
