// Batches collected in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

inline constexpr std::size_t kDefaultMemoryConsumerBytes = std::size_t{1} << 30;

/// Keeps every batch (the handle: the bytes are shared, not copied). A batch that would take it
/// past `limit_bytes` is an Error and is not kept.
class MemoryConsumer final : public Consumer {
 public:
  explicit MemoryConsumer(std::size_t limit_bytes = kDefaultMemoryConsumerBytes)
      : limit_bytes_(limit_bytes) {}

  void push(const Tensor& batch) override;

  [[nodiscard]] const std::vector<Tensor>& batches() const { return batches_; }
  /// All rows as one tensor; an Error when there are none.
  [[nodiscard]] Tensor rows() const { return concat_rows(batches_); }
  /// Forgets everything.
  void clear();

 private:
  const std::size_t limit_bytes_;
  std::size_t bytes_ = 0;
  std::vector<Tensor> batches_;
};

}  // namespace harmonics::inline in_data
