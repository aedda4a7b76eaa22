// The rows of a run that are assigned to nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/dispatch/generator.h>

namespace harmonics::inline in_dispatch {

/// A sub-batch on its way through a device.
struct Claim {
  RowRange rows;
  /// Its own, but for a sub-batch that two devices compute: that has one number.
  std::uint64_t number = 0;
  /// How often it came back because a device was lost.
  int attempts = 0;
  Nanoseconds assigned_at{0};
  Nanoseconds started_at{0};
  /// At work: its input is made, its result counts (both known only where sub-batches are
  /// repeated).
  bool loaded = false;
  bool committed = false;
};

/// Gives rows out from the front; what came back goes out first. Every row is in exactly one place:
/// here, or in one claim. One thread.
class RowPool {
 public:
  RowPool() = default;
  explicit RowPool(RowRange fresh) : fresh_(fresh), left_(fresh.size()) {}

  [[nodiscard]] std::size_t left() const { return left_; }

  /// At least one and at most `rows` rows that lie together; there must be some left.
  [[nodiscard]] Claim take(std::size_t rows);
  void put_back(const Claim& claim);

 private:
  RowRange fresh_;
  std::size_t left_ = 0;
  std::vector<Claim> returned_;
};

}  // namespace harmonics::inline in_dispatch
