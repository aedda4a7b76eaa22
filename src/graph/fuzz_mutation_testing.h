// Seeded damage for the fuzz smoke tests: the same seed damages the same way everywhere.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/random.h>

namespace harmonics::inline in_graph {

/// Breaks inputs: flips bits, overwrites, inserts, removes and copies pieces, splices two seeds,
/// and drops in words that a format cares about. Not thread safe.
class FuzzMutation {
 public:
  /// `seeds` must not be empty; `words` may be.
  FuzzMutation(std::uint64_t seed, std::vector<std::string> seeds, std::vector<std::string> words)
      : random_(seed, "fuzz"), seeds_(std::move(seeds)), words_(std::move(words)) {}

  std::string next() {
    std::string input = seeds_[pick(seeds_.size())];
    const std::size_t rounds = 1 + pick(6);
    for (std::size_t i = 0; i < rounds; ++i) damage(input);
    return input;
  }

 private:
  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_.below(below)); }
  std::size_t place(const std::string& input) { return pick(input.size() + 1); }

  void damage(std::string& input) {
    const std::size_t at = place(input);
    const std::size_t length = pick(std::min<std::size_t>(input.size() - at, 32) + 1);
    const std::string piece = input.substr(at, length);
    switch (pick(7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << pick(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(pick(256));
        break;
      case 2: input.erase(at, length); break;
      case 3: input.insert(place(input), piece); break;
      case 4: input.insert(at, words_.empty() ? piece : words_[pick(words_.size())]); break;
      case 5: input.resize(at); break;
      default: {
        const std::string& other = seeds_[pick(seeds_.size())];
        input = input.substr(0, at) + other.substr(place(other));
      }
    }
  }

  Random random_;
  std::vector<std::string> seeds_;
  std::vector<std::string> words_;
};

}  // namespace harmonics::inline in_graph
