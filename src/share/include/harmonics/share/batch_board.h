// The shared memory under a SharedBatcher: requests on a board, who owns it, and their rows.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <harmonics/base/error.h>

#include <harmonics/share/shared_segment.h>

namespace harmonics::inline in_share {

/// Requests that can wait or be computed at a time.
inline constexpr std::size_t kBatchSlots = 64;

struct BoardSizes {
  std::size_t slot_rows = 0;
  std::size_t input_row_bytes = 0;
  std::size_t output_row_bytes = 0;
  std::uint64_t fingerprint = 0;
};

/// How a request ended.
struct BatchAnswer {
  bool done = false;
  /// Meaningful when it is not done.
  ErrorCode code = ErrorCode::kUnknown;
  std::string error = {};
};

/// Every member but `input` and `output` takes the segment's lock itself. Any thread.
class BatchBoard {
 public:
  BatchBoard(const std::string& name, const BoardSizes& sizes);

  static std::size_t bytes_of(const BoardSizes& sizes);

  // --- those who ask ---

  /// A free slot, which the caller then fills; kBatchSlots when none is free.
  [[nodiscard]] std::size_t take_slot();
  /// Puts the request up, once its rows are in `input`.
  void post(std::size_t slot, std::size_t rows);
  /// True when the request has been answered: `answer` says how.
  [[nodiscard]] bool answered(std::size_t slot, BatchAnswer& answer);
  void free_slot(std::size_t slot);
  /// Waits for news of a slot, or of any slot becoming free, for a while.
  void wait_for_answer(std::size_t slot);
  void wait_for_room();

  // --- the owner ---

  /// Becomes the owner if there is none alive; what the last one left unanswered waits again.
  [[nodiscard]] bool try_own();
  [[nodiscard]] bool owns();
  [[nodiscard]] bool has_owner();
  /// Leaves; whoever waits looks for a new owner.
  void disown();
  /// Requests that wait, and how many users there are.
  [[nodiscard]] std::size_t waiting();
  struct Taken {
    std::size_t slot = 0;
    std::size_t rows = 0;
  };
  /// The oldest requests, up to so many rows; they are the owner's until it answers.
  [[nodiscard]] std::vector<Taken> take_batch(std::size_t max_rows);
  void answer(std::span<const Taken> batch, const BatchAnswer& answer);
  /// Waits for a request, for a while.
  void wait_for_work(Nanoseconds timeout);
  /// Ends such a wait.
  void wake_owner();
  void count_batch(std::span<const Taken> batch);

  /// Batches, requests, rows.
  [[nodiscard]] std::array<std::uint64_t, 3> counts();

  [[nodiscard]] std::byte* input(std::size_t slot) const;
  [[nodiscard]] std::byte* output(std::size_t slot) const;

 private:
  struct Slot;
  struct Records;
  [[nodiscard]] Records& records() const;
  [[nodiscard]] bool owner_alive() const;
  void bury_dead();

  BoardSizes sizes_;
  SharedSegment segment_;
};

}  // namespace harmonics::inline in_share
