// Batcher: which requests go together, and when (private to serve). Knows no thread and no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <harmonics/base/clock.h>

namespace harmonics::inline in_serve {

/// Requests wait in the order in which they came. A batch is due when its rows are full, when the
/// oldest of its requests has waited `max_wait` for company, or when no company is wished. A
/// request that does not fit any more begins the next batch; none overtakes another.
class Batcher {
 public:
  struct Terms {
    /// Of one batch.
    std::int64_t rows = 1;
    /// Rows that may wait.
    std::int64_t queue_rows = 1;
    Nanoseconds max_wait{};
    /// Every request is a batch of its own.
    bool alone = false;
  };
  struct Waiting {
    std::uint64_t ticket = 0;
    std::int64_t rows = 1;
    Nanoseconds arrived{};
    /// From then on nobody wants the answer.
    Nanoseconds expires{};
  };

  explicit Batcher(const Terms& terms) : terms_(terms) {}

  /// False: no room.
  [[nodiscard]] bool admit(const Waiting& request);
  /// The tickets of the batch that is due at `now`; none while none is. With `hurry` nobody waits
  /// for company.
  [[nodiscard]] std::vector<std::uint64_t> take(Nanoseconds now, bool hurry);
  /// When a batch is due by itself; nothing while nobody waits.
  [[nodiscard]] std::optional<Nanoseconds> due() const;
  /// Takes out those that have expired at `now`.
  [[nodiscard]] std::vector<std::uint64_t> expire(Nanoseconds now);
  /// When the next one expires; nothing while nobody waits.
  [[nodiscard]] std::optional<Nanoseconds> next_expiry() const;
  /// Takes one out; false: it does not wait here.
  bool remove(std::uint64_t ticket);
  /// From now on: so many rows to a batch (a request that has more goes alone), or every request
  /// alone.
  void set_rows(std::int64_t rows) { terms_.rows = rows; }
  void set_alone(bool alone) { terms_.alone = alone; }

  [[nodiscard]] std::int64_t waiting_rows() const { return waiting_rows_; }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

 private:
  /// How many from the front go together, and whether more would fit.
  struct Front {
    std::size_t count = 0;
    bool full = false;
  };
  [[nodiscard]] Front front() const;

  Terms terms_;
  std::deque<Waiting> waiting_;
  std::int64_t waiting_rows_ = 0;
};

}  // namespace harmonics::inline in_serve
