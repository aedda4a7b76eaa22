// A source kept in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

inline constexpr std::size_t kDefaultCacheBytes = std::size_t{1} << 30;

/// Reads its whole source in row order on first use and serves every later read from memory. A
/// source that needs more than `limit_bytes` stays uncached: it is read through, and one warning
/// says so. Only what is the same in every epoch can be cached, hence the indexed source; random
/// changes belong after it.
class CacheProducer final : public IndexedProducer {
 public:
  explicit CacheProducer(IndexedProducerPtr source, std::size_t limit_bytes = kDefaultCacheBytes);
  ~CacheProducer() override;

  [[nodiscard]] TensorSpec sample_spec() const override { return source_->sample_spec(); }
  [[nodiscard]] std::int64_t row_count() const override { return source_->row_count(); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;
  [[nodiscard]] std::vector<std::int64_t> row_lengths(std::span<const std::int64_t> rows) override {
    return source_->row_lengths(rows);
  }

  /// False when the source is too large.
  [[nodiscard]] bool caches() const { return stored_ != nullptr; }

 private:
  struct Stored;
  IndexedProducerPtr source_;
  std::unique_ptr<Stored> stored_;  // nothing when the source is too large
};

}  // namespace harmonics::inline in_data
