// BatchShares: how the rows of a batch are dealt out to replicas.
//
// The same text means the same to replicas, which each compute a share, and to one process, which
// computes the shares one after another: `--shares 3,1` gives the first replica three rows of four.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_settings {

/// The most shares of a batch, and the largest weight of one.
inline constexpr std::size_t kMaxShares = 1024;
inline constexpr std::int64_t kMaxShareWeight = std::int64_t{1} << 24;
/// How often the shares may change in one run.
inline constexpr std::size_t kMaxShareChanges = 4096;

/// A weight for each replica, in their order; 0: it computes nothing. Not all are 0.
using ShareWeights = std::vector<std::int64_t>;

/// Rows of the micro-batches of each share, in the order of the shares: a share has as many rows as
/// its weight says, to the row, and is cut as evenly as they go into `micro_batches`, or one a row
/// where it has fewer. A share may have none.
using DealtRows = std::vector<std::vector<std::int64_t>>;
[[nodiscard]] DealtRows deal_rows(std::int64_t rows, std::int64_t micro_batches,
                                  const ShareWeights& weights);

/// Shares of a run: equal ones, as replicas measure, or given ones, which may change from step to
/// step. As text:
///
///     equal                 as even as they go
///     auto                  in proportion to measured rates
///     3,1                   in these proportions
///     3,1/18:1,1/40:0,1     and from steps 18 and 40 on in others; steps count from 1
class BatchShares {
 public:
  /// Equal ones.
  BatchShares() = default;
  /// An Error says what is wrong with the text.
  [[nodiscard]] static BatchShares parse(std::string_view text);

  [[nodiscard]] bool are_equal() const { return !measured_ && course_.empty(); }
  [[nodiscard]] bool are_measured() const { return measured_; }
  [[nodiscard]] bool are_given() const { return !course_.empty(); }
  /// Of how many given shares; 0 where none are given.
  [[nodiscard]] std::size_t count() const;
  /// The given weights of a step, which counts from 0. Null: equal ones.
  [[nodiscard]] const ShareWeights* at(std::uint64_t step) const;
  /// From this step on, which no other change comes after. False, with nothing changed, once there
  /// were kMaxShareChanges.
  bool change(std::uint64_t step, ShareWeights weights);
  [[nodiscard]] std::string text() const;

  bool operator==(const BatchShares&) const = default;

 private:
  struct Change {
    std::uint64_t step = 0;
    ShareWeights weights;
    bool operator==(const Change&) const = default;
  };

  bool measured_ = false;
  std::vector<Change> course_;  // by rising step
};

}  // namespace harmonics::inline in_settings
