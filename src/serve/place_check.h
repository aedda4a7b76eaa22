// PlaceCheck: which batches give a row the bits that it has alone (private to serve).
//
// A library of linear algebra chooses its way by the number of rows, and may treat the last rows of
// a batch in another way than the first: bits of a row may then depend on its company. So the
// service tries it out before it takes requests. Four rows go through batches of each size that
// could be used, in every place; a size at which each of them comes out with the same bits
// everywhere, those of the largest size, is one that batches may be filled up to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <harmonics/serve/model_card.h>

namespace harmonics::inline in_serve {

/// Batches to try go out by `next` and what became of each comes back, in order, by `take`. One
/// thread at a time.
class PlaceCheck {
 public:
  /// Rows that are tried in every place.
  static constexpr std::int64_t kSamples = 4;

  /// A model with open axes is only warmed up: its requests go alone.
  explicit PlaceCheck(const ModelCard& card);

  /// The inputs of the next batch to try; nothing when all are out.
  [[nodiscard]] std::optional<TensorsByName> next();
  [[nodiscard]] bool has_next() const { return given_ < trials_.size(); }
  void take(const TensorsByName& outputs);
  /// All have come back.
  [[nodiscard]] bool over() const { return taken_ == trials_.size(); }
  /// The numbers of rows that batches may be filled up to, rising; the last is the card's. Empty:
  /// bits depend on the place, and every request has to go alone.
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
  std::vector<Trial> trials_;  // the largest size first: what comes out there is the measure
  std::size_t given_ = 0;
  std::size_t taken_ = 0;
  std::vector<std::vector<std::byte>> known_;  // by sample: bytes of all outputs
  std::map<std::int64_t, bool> same_;          // by size
};

}  // namespace harmonics::inline in_serve
