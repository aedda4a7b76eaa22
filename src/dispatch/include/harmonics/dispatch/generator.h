// Where the work of a dispatcher comes from: rows that can be asked for in any order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_dispatch {

/// Rows begin..end of a batch, without `end`.
struct RowRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

/// A batch of `size()` rows, from which `rows` makes the input of any sub-batch: a sub-batch that
/// failed on one device is simply made again for another one. `next` walks through the batch for
/// those who want it in order; a dispatcher takes what `next` has not given out yet.
///
/// Threads: `rows` is called from several at once and must not change the generator; the walk
/// belongs to one thread.
template <typename T>
class WorkGenerator {
 public:
  using Value = T;
  virtual ~WorkGenerator() = default;

  /// Rows of the whole batch.
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// The input made of these rows, which lie within 0..size().
  [[nodiscard]] virtual T rows(RowRange range) const = 0;
  /// Names of inputs that have no rows of their own and go whole into every sub-batch.
  [[nodiscard]] virtual std::vector<std::string> unbatched() const { return {}; }

  struct Piece {
    std::size_t count;
    T value;
  };
  /// The next `count` rows, or as many as are left; nothing at the end.
  [[nodiscard]] std::optional<Piece> next(std::size_t count) {
    const std::size_t taken = std::min(count, size() - offset_);
    if (taken == 0) return std::nullopt;
    const RowRange range{offset_, offset_ + taken};
    offset_ = range.end;
    return Piece{taken, rows(range)};
  }
  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] bool has_more() const { return offset_ < size(); }
  /// Goes back to the first row, or to another one.
  void rewind(std::size_t offset = 0) { offset_ = std::min(offset, size()); }

 private:
  std::size_t offset_ = 0;
};

/// Indices start..stop of something that the user function looks up itself.
struct Slice {
  std::size_t start = 0;
  std::size_t stop = 0;
  [[nodiscard]] std::size_t size() const { return stop - start; }
  bool operator==(const Slice&) const = default;
};

/// Cuts start..stop into slices. `start` at or past `stop` is an Error (kInvalidArgument).
class SliceGenerator final : public WorkGenerator<Slice> {
 public:
  SliceGenerator(std::size_t start, std::size_t stop) : start_(start), stop_(stop) {
    if (start >= stop) {
      fail(ErrorCode::kInvalidArgument, "a slice from {} to {} is empty: start must be below stop",
           start, stop);
    }
  }
  [[nodiscard]] std::size_t size() const override { return stop_ - start_; }
  [[nodiscard]] Slice rows(RowRange range) const override {
    return {start_ + range.begin, start_ + range.end};
  }

 private:
  std::size_t start_;
  std::size_t stop_;
};

}  // namespace harmonics::inline in_dispatch
