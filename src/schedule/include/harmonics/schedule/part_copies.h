// A part of a graph that several processes run: whose turn it is, and what their boundaries are
// called.
//
// Which copy takes a batch follows from its number alone, so that all processes know it without a
// word between them. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_schedule {

/// The most copies of one part, and the most turns that one of them has in a round.
inline constexpr std::size_t kMaxCopies = 256;
inline constexpr std::uint32_t kMaxTurns = 1000;

/// In which order copies take batches: smooth weighted round-robin, so that a copy with twice the
/// weight takes twice as many, evenly spread. Weights of {2, 1} give 0, 1, 0, and so on. A value.
class CopyTurns {
 public:
  /// One copy, which takes everything.
  CopyTurns();
  /// A weight for each copy, 1 to kMaxTurns. No weight, more than kMaxCopies of them, or one out of
  /// range is an Error.
  explicit CopyTurns(const std::vector<std::uint32_t>& weights);

  [[nodiscard]] std::size_t copies() const { return weights_.size(); }
  /// Which copy takes the batch of that number.
  [[nodiscard]] std::size_t copy_of(std::uint64_t number) const {
    return (*round_)[number % round_->size()];
  }
  /// The first number from `from` on that this copy takes.
  [[nodiscard]] std::uint64_t next_of(std::size_t copy, std::uint64_t from) const;
  /// Which part of all batches this copy takes, from 0 to 1.
  [[nodiscard]] double share_of(std::size_t copy) const;

  bool operator==(const CopyTurns& other) const { return weights_ == other.weights_; }

 private:
  std::vector<std::uint32_t> weights_;                       // without a common divisor
  std::shared_ptr<const std::vector<std::uint16_t>> round_;  // copies in order, shared by values
};

/// What a process that runs one copy of a part knows about copies.
struct PartCopies {
  /// How the copies of this part take turns, and which of them this one is.
  CopyTurns turns = {};
  std::size_t copy = 0;
  /// The same for the part at the other end, by boundary; one that is not named has one copy.
  std::map<std::string, CopyTurns, std::less<>> others = {};
  /// They learn: micro-batches are dealt, and copies of this part meet to add up their gradients.
  bool learns = false;

  [[nodiscard]] const CopyTurns& at(std::string_view boundary) const;
  /// True when this part, or one that it meets, has several copies.
  [[nodiscard]] bool any() const;
};

/// The names of what carries a boundary, one for each copy of the part at the other end, in order:
/// "hidden@1~0of2~1of3" joins copy 0 of two that send with copy 1 of three that take. Between parts
/// without copies it is the boundary's own name.
[[nodiscard]] std::vector<std::string> entering_channels(const PartCopies& copies,
                                                         const std::string& boundary);
[[nodiscard]] std::vector<std::string> leaving_channels(const PartCopies& copies,
                                                        const std::string& boundary);
/// What joins this copy with the others of its part while they learn: the first with each of them,
/// in order, the others with the first. None where there is one copy, or nothing learns.
[[nodiscard]] std::vector<std::string> copy_links(const PartCopies& copies,
                                                  const std::string& part);
/// The boundary that a channel is of.
[[nodiscard]] std::string_view boundary_of(std::string_view channel);

}  // namespace harmonics::inline in_schedule
