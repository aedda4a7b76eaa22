// Samples in a random order that every binding of a run shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <harmonics/data/chained_producer.h>

namespace harmonics::inline in_data {

inline constexpr std::int64_t kDefaultShuffleWindow = 1024;
inline constexpr std::int64_t kMaxShuffleWindow = std::int64_t{1} << 24;

/// Yields the samples of its source in an order drawn anew for every epoch.
///
/// Over an indexed source the order is a permutation of all rows (Fisher-Yates), which takes 8
/// bytes a row and depends on nothing but the SampleOrder and the number of rows: two producers of
/// equal length in the same epoch always agree. Over any other source each stretch of `window`
/// samples is permuted within itself; that takes memory for so many samples and depends on nothing
/// but the SampleOrder and the window. Up to one window both kinds give the same order.
///
/// `seed` is that of the order until the first begin_epoch. A window outside 1..kMaxShuffleWindow
/// and a source that yields batches are Errors.
class ShuffleProducer final : public ChainedProducer {
 public:
  explicit ShuffleProducer(ProducerPtr source, std::uint64_t seed = 0,
                           std::int64_t window = kDefaultShuffleWindow);

  void begin_epoch(const SampleOrder& order) override;
  [[nodiscard]] std::optional<Tensor> next() override;
  [[nodiscard]] std::int64_t next_rows(std::int64_t count, std::span<std::byte> out) override;
  /// Known for an indexed source alone; in a window of a stream every sample counts as whole.
  [[nodiscard]] std::vector<std::int64_t> lengths_ahead(std::int64_t count) override;
  void skip(std::int64_t count) override;
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  [[nodiscard]] std::span<const std::int64_t> rows_ahead(std::int64_t count);
  [[nodiscard]] std::int64_t gather_indexed(std::int64_t count, std::span<std::byte> out);
  [[nodiscard]] std::int64_t gather_window(std::int64_t count, std::span<std::byte> out);
  void load_window(std::int64_t number);

  IndexedProducerPtr indexed_;  // the source, when it is indexed
  const std::int64_t window_;
  ProducerPosition position_;
  std::vector<std::int64_t> order_;  // of all rows, or of the samples of the loaded window
  bool ordered_ = false;             // whether order_ is that of this epoch
  std::int64_t loaded_window_ = -1;
  std::vector<std::byte> samples_;  // of the loaded window
};

}  // namespace harmonics::inline in_data
