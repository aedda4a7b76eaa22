// PlaceCheck: which batches give a row the bits that it has alone (private to serve).
//
// A library of linear algebra chooses its way by the number of rows, and may treat the last rows of
// a batch in another way than the first: bits of a row may then depend on its company. So the
// service tries it out before it takes requests. Made-up rows go through batches of each size that
// could be used, round after round, each time one place further; a size at which they come out with
// the same bits in every place is one that batches may be filled up to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include <harmonics/serve/model_card.h>

namespace harmonics::inline in_serve {

/// Batches to try go out by `next` and what became of each comes back, in order, by `take`. One
/// thread at a time.
class PlaceCheck {
 public:
  /// Rows that are tried.
  static constexpr std::int64_t kSamples = 64;
  /// Rounds: a model that gives few numbers has few bits that could differ, and needs more of them;
  /// one that also takes few numbers is small, and can afford them.
  static constexpr std::int64_t kRounds = 4;
  static constexpr std::int64_t kRoundsOfFewOutputs = 16;
  static constexpr std::int64_t kRoundsOfSmallModel = 64;
  static constexpr std::int64_t kFewOutputs = 256;
  static constexpr std::int64_t kFewInputs = 4096;

  /// A model with open axes is only warmed up: its requests go alone.
  explicit PlaceCheck(const ModelCard& card);

  /// The inputs of the next batch to try; nothing when all are out.
  [[nodiscard]] std::optional<TensorsByName> next();
  /// Whether `next` would give one.
  [[nodiscard]] bool has_next() const { return round_ < rounds_; }
  void take(const TensorsByName& outputs);
  /// All have come back.
  [[nodiscard]] bool over() const { return trials_.empty() && !has_next(); }
  /// The numbers of rows that batches may be filled up to, rising: the largest at which places do
  /// not matter, and those below that give the same bits. Empty: none above one row does, and every
  /// request has to go alone.
  [[nodiscard]] std::vector<std::int64_t> sizes() const;

  /// One batch of so many rows that says nothing: axes are short, numbers are zero.
  [[nodiscard]] static TensorsByName idle_inputs(const ModelCard& card, std::int64_t rows);

 private:
  struct Trial {
    std::int64_t rows = 1;
    /// Which sample the first place holds; the following ones are in the following places.
    std::int64_t first = 0;
  };
  [[nodiscard]] Tensor inputs_of(const TensorCard& input, const Trial& trial) const;

  const ModelCard& card_;
  std::vector<std::int64_t> sizes_;  // the largest first: what comes out there is the measure
  std::int64_t rounds_ = 1;
  std::int64_t round_ = 0;
  std::size_t next_size_ = 0;
  std::deque<Trial> trials_;  // out and not back
  /// What is known of one size.
  struct Known {
    std::map<std::int64_t, std::size_t> bits;  // by sample: a hash of all outputs
    bool same = true;                          // in every place
  };
  std::map<std::int64_t, Known> known_;  // by size; empty: nothing is compared
};

}  // namespace harmonics::inline in_serve
