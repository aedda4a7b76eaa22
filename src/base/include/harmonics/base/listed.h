// Lists in messages: "relu, sigmoid, tanh".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace harmonics::inline in_base {

/// Adds an item to a list under way: with `between` before it unless it is the first.
inline void add_item(std::string& list, std::string_view item, std::string_view between = ", ") {
  if (!list.empty()) list += between;
  list += item;
}

/// The items of a range with `between` between them; empty where there are none. `spell` turns an
/// item into text (a function or a pointer to a member).
template <typename Range, typename Spell = std::identity>
[[nodiscard]] std::string joined(const Range& items, std::string_view between = ", ",
                                 Spell spell = {}) {
  std::string text;
  for (const auto& item : items) add_item(text, std::invoke(spell, item), between);
  return text;
}

/// The same with commas, or "none".
template <typename Range, typename Spell = std::identity>
[[nodiscard]] std::string listed(const Range& items, Spell spell = {}) {
  const std::string text = joined(items, ", ", std::move(spell));
  return text.empty() ? "none" : text;
}

}  // namespace harmonics::inline in_base
