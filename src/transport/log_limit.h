// How much of a log strangers may fill.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace harmonics::inline in_transport {

/// Lets a few lines through at once and then one every now and then. Not thread safe.
class LogLimit {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  static constexpr int kAtOnce = 10;
  static constexpr std::chrono::seconds kBetween{10};

  /// Nothing when no line is due; else how many were left out since the last one.
  [[nodiscard]] std::optional<std::uint64_t> take(Instant now) {
    if (now - refilled_ >= kBetween) {
      left_ = refilled_ == Instant() || now - refilled_ >= kAtOnce * kBetween ? kAtOnce : left_ + 1;
      left_ = left_ < kAtOnce ? left_ : kAtOnce;
      refilled_ = now;
    }
    if (left_ == 0) {
      ++left_out_;
      return std::nullopt;
    }
    --left_;
    const std::uint64_t before = left_out_;
    left_out_ = 0;
    return before;
  }

 private:
  int left_ = 0;
  Instant refilled_{};
  std::uint64_t left_out_ = 0;
};

}  // namespace harmonics::inline in_transport
