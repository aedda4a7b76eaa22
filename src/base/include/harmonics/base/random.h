// Chance as an argument: every random number is a pure function of a key and a counter.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11). The same key and counter give the same numbers on every machine, thread and backend, so a
// run can be repeated, cut into parts or resumed without moving any generator state.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace harmonics::inline in_base {

/// Ten rounds of Philox4x32: four 32-bit numbers for a 128-bit counter under a 64-bit key.
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                  std::uint64_t key);

/// A 64-bit key from a seed and a name (FNV-1a, then mixed): one stream per layer, parameter or
/// use.
[[nodiscard]] std::uint64_t random_key(std::uint64_t seed, std::string_view name);

/// Fills `out` with the numbers of blocks (0..n/4) of the stream (key, a, b): a and b are, for
/// instance, step and sample index. Vectorised; out.size() need not be a multiple of four.
void fill_random(std::uint64_t key, std::uint32_t a, std::uint64_t b, std::span<std::uint32_t> out);

/// A sequence of numbers from one key; satisfies UniformRandomBitGenerator. A small value: copy it
/// to fork the sequence. Not thread safe.
class Random {
 public:
  using result_type = std::uint32_t;
  explicit Random(std::uint64_t key, std::uint64_t stream = 0) : key_(key), stream_(stream) {}
  Random(std::uint64_t seed, std::string_view name) : Random(random_key(seed, name)) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xffffffffu; }
  result_type operator()();

  /// Uniform in [0, bound) without bias; bound must be positive.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1), 24 bits.
  float uniform();
  /// Normal with mean 0 and variance 1 (Box-Muller).
  float normal();

 private:
  std::uint64_t key_;
  std::uint64_t stream_;
  std::uint64_t block_ = 0;
  unsigned used_ = 4;
  std::array<std::uint32_t, 4> numbers_{};
};

/// Fisher-Yates: shuffles `values` in place from the last element down to the second.
void shuffle(std::span<std::int64_t> values, Random& random);

}  // namespace harmonics::inline in_base
