// CappedMemory: Arrow's memory with a ceiling, whatever a file claims (private to data's Arrow
// part).
#pragma once

#include <arrow/memory_pool.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace harmonics::inline in_data {

/// Any thread. An allocation past the ceiling is Status::OutOfMemory and takes nothing.
class CappedMemory final : public arrow::MemoryPool {
 public:
  explicit CappedMemory(std::int64_t ceiling_bytes) : ceiling_(ceiling_bytes) {}

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override;
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** at) override;
  void Free(std::uint8_t* buffer, std::int64_t size, std::int64_t alignment) override;

  [[nodiscard]] std::int64_t bytes_allocated() const override { return taken_; }
  [[nodiscard]] std::int64_t total_bytes_allocated() const override { return total_; }
  [[nodiscard]] std::int64_t num_allocations() const override { return count_; }
  [[nodiscard]] std::string backend_name() const override { return below_->backend_name(); }

 private:
  arrow::Status take(std::int64_t bytes);

  arrow::MemoryPool* const below_ = arrow::default_memory_pool();
  const std::int64_t ceiling_;
  std::atomic<std::int64_t> taken_ = 0;
  std::atomic<std::int64_t> total_ = 0;
  std::atomic<std::int64_t> count_ = 0;
};

}  // namespace harmonics::inline in_data
