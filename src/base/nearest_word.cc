#include <harmonics/base/nearest_word.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>

namespace harmonics::inline in_base {
namespace {

constexpr std::size_t kShortestPart = 3;

// Optimal string alignment distance, three rows at a time.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_word(const std::string& given, std::span<const std::string> words) {
  if (given.size() > kLongestNearWord) return {};
  // One letter less than what is meant, before what is longer by a whole word.
  if (std::ranges::find(words, given + "s") != words.end()) return given + "s";
  for (const std::string& word : words) {
    if (given.size() < kShortestPart) break;
    if (word.ends_with("_" + given) || word.starts_with(given + "-")) return word;
  }
  std::string nearest;
  std::size_t fewest = ~std::size_t{0};
  for (const std::string& word : words) {
    const std::size_t distance = edits(given, word);
    if (distance < fewest && distance <= word.size() / 3 + 1) {
      fewest = distance;
      nearest = word;
    }
  }
  return nearest;
}

std::string suggestion(const std::string& given, std::span<const std::string> words) {
  const std::string nearest = nearest_word(given, words);
  return nearest.empty() ? "" : format("; did you mean '{}'?", nearest);
}

}  // namespace harmonics::inline in_base
