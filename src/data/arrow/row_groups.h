// RowGroups: a file of columns that comes in groups of rows (private to data's Arrow part).
#pragma once

#include <arrow/chunked_array.h>
#include <arrow/memory_pool.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_data {

/// Ceilings, whatever a file says: groups, rows, and bytes of one group, in the file and in memory.
constexpr std::size_t kMostRowGroups = std::size_t{1} << 20;
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
constexpr std::int64_t kMostGroupBytes = std::int64_t{1} << 30;

using ArrowColumns = std::vector<std::shared_ptr<arrow::ChunkedArray>>;

/// One thread at a time.
class RowGroups {
 public:
  virtual ~RowGroups() = default;
  RowGroups(const RowGroups&) = delete;
  RowGroups& operator=(const RowGroups&) = delete;

  /// How errors name the file.
  [[nodiscard]] virtual const std::string& path() const = 0;
  [[nodiscard]] virtual const arrow::Schema& schema() const = 0;
  /// How many rows each group has, as the file says: none is negative.
  [[nodiscard]] virtual std::span<const std::int64_t> rows() const = 0;
  /// These fields (numbers of the schema, ascending) of one group, checked: as many rows as
  /// promised, of the types that the schema says. Anything else is an Error.
  [[nodiscard]] virtual ArrowColumns read(std::size_t group, const std::vector<int>& fields) = 0;

 protected:
  RowGroups() = default;
  /// An Error unless they are what the schema and rows() say; looks at every value that says where
  /// others stand.
  void check(std::size_t group, const std::vector<int>& fields, const ArrowColumns& columns) const;
  /// An Error where another group passes a ceiling; `sum` are the rows before it.
  void check_group(std::size_t group, std::int64_t rows, std::int64_t sum) const;
};

/// A Parquet file. What cannot be one is an Error. `memory` outlives it.
[[nodiscard]] std::unique_ptr<RowGroups> parquet_groups(const ByteSourcePtr& source,
                                                        arrow::MemoryPool* memory);

/// A file or a stream of Arrow record batches, compressed or not.
[[nodiscard]] std::unique_ptr<RowGroups> ipc_groups(const ByteSourcePtr& source,
                                                    arrow::MemoryPool* memory);

}  // namespace harmonics::inline in_data
