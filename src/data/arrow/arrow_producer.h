// ArrowProducer: the rows of a Parquet or Arrow file as samples (private to data's Arrow part).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <harmonics/data/byte_source.h>
#include <harmonics/data/producer.h>
#include <harmonics/data/row_places.h>

#include "arrow_memory.h"
#include "column_layout.h"
#include "row_groups.h"

namespace harmonics::inline in_data {

/// Makes the groups of a file: parquet_groups or ipc_groups.
using OpenGroups = std::unique_ptr<RowGroups> (*)(const ByteSourcePtr& source,
                                                  arrow::MemoryPool* memory);

/// A group is decoded when one of its rows is asked for and kept while there is room: the last one
/// always, others up to `kept_bytes`. Rows that are asked for together are read group by group.
class ArrowProducer final : public IndexedProducer, public RowPlaces {
 public:
  static constexpr std::size_t kKeptBytes = std::size_t{256} << 20;

  ArrowProducer(const ByteSourcePtr& source, OpenGroups open, const ColumnWishes& wishes,
                std::size_t kept_bytes = kKeptBytes);

  [[nodiscard]] TensorSpec sample_spec() const override { return layout_.spec(); }
  [[nodiscard]] std::int64_t row_count() const override { return starts_.back(); }
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const override {
    return layout_.place_of(row, element);
  }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

  /// The most bytes of samples that were kept at once.
  [[nodiscard]] std::size_t most_kept_bytes() const { return most_kept_bytes_; }

 private:
  struct DecodedGroup {
    std::size_t number = 0;
    std::vector<std::byte> samples;
  };
  using DecodedGroupPtr = std::shared_ptr<const DecodedGroup>;

  [[nodiscard]] std::size_t group_of(std::int64_t row) const;
  DecodedGroupPtr decoded(std::size_t group);
  void make_room();

  CappedMemory memory_;
  std::unique_ptr<RowGroups> groups_;
  ColumnLayout layout_;
  std::vector<std::int64_t> starts_;  // the first row of each group, and the count of all
  const std::size_t kept_bytes_;
  std::mutex mutex_;  // over groups_ and kept_
  std::atomic<std::size_t> most_kept_bytes_ = 0;
  std::list<DecodedGroupPtr> kept_;  // the last used first
};

}  // namespace harmonics::inline in_data
