#include <harmonics/base/random.h>

#include <cmath>
#include <numbers>
#include <utility>

namespace harmonics::inline in_base {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;

// One block with every word in its own variable, so that a loop over blocks vectorises.
struct Block {
  std::uint32_t w0, w1, w2, w3;
};

inline Block rounds(Block c, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c.w0;
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c.w2;
    c = Block{static_cast<std::uint32_t>(product1 >> 32) ^ c.w1 ^ key0,
              static_cast<std::uint32_t>(product1),
              static_cast<std::uint32_t>(product0 >> 32) ^ c.w3 ^ key1,
              static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  const Block b = rounds({counter[0], counter[1], counter[2], counter[3]},
                         static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
  return {b.w0, b.w1, b.w2, b.w3};
}

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  std::uint64_t key = hash ^ (seed * 0x9E3779B97F4A7C15ull);  // then the splitmix64 finaliser
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9ull;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBull;
  return key ^ (key >> 31);
}

void fill_random(std::uint64_t key, std::uint32_t a, std::uint64_t b,
                 std::span<std::uint32_t> out) {
  const auto key0 = static_cast<std::uint32_t>(key);
  const auto key1 = static_cast<std::uint32_t>(key >> 32);
  const auto b0 = static_cast<std::uint32_t>(b);
  const auto b1 = static_cast<std::uint32_t>(b >> 32);
  const std::size_t whole = out.size() / 4;
  std::uint32_t* to = out.data();
  for (std::size_t i = 0; i < whole; ++i) {
    const Block block = rounds({static_cast<std::uint32_t>(i), a, b0, b1}, key0, key1);
    to[4 * i] = block.w0;
    to[4 * i + 1] = block.w1;
    to[4 * i + 2] = block.w2;
    to[4 * i + 3] = block.w3;
  }
  if (out.size() % 4 != 0) {
    const auto last = philox({static_cast<std::uint32_t>(whole), a, b0, b1}, key);
    for (std::size_t i = 0; i < out.size() % 4; ++i) to[4 * whole + i] = last[i];
  }
}

Random::result_type Random::operator()() {
  if (used_ == 4) {
    numbers_ =
        philox({static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32),
                static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
               key_);
    ++block_;
    used_ = 0;
  }
  return numbers_[used_++];
}

std::uint64_t Random::below(std::uint64_t bound) {
  const std::uint64_t limit = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;
  while (true) {
    const std::uint64_t high = (*this)();
    const std::uint64_t number = (high << 32) | (*this)();
    if (number <= limit) return number % bound;
  }
}

float Random::uniform() { return static_cast<float>((*this)() >> 8) * 0x1.0p-24f; }

float Random::normal() {
  const double radius =
      std::sqrt(-2.0 * std::log((static_cast<double>((*this)()) + 1.0) * 0x1.0p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>((*this)()) * 0x1.0p-32;
  return static_cast<float>(radius * std::cos(angle));
}

void shuffle(std::span<std::int64_t> values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(i)]);
  }
}

}  // namespace harmonics::inline in_base
