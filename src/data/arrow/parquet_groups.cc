// Parquet files, a row group at a time.
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <utility>

#include "arrow_status.h"
#include "byte_source_file.h"
#include "row_groups.h"

namespace harmonics::inline in_data {

namespace {

// Of what a footer lists (schema elements, row groups, pairs of metadata), and of a text in it. The
// elements bound how deep a schema nests, which Arrow walks by calls.
constexpr std::int32_t kMostListed = 10'000;
constexpr std::int32_t kLongestText = 16 << 20;
constexpr std::size_t kDeepestColumn = 64;

void add_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const auto& child : field.children) add_leaves(child, leaves);
}

// Before anything else walks the schema by calls.
void check_depth(const parquet::SchemaDescriptor& schema, const std::string& path) {
  for (int column = 0; column < schema.num_columns(); ++column) {
    const std::size_t depth = schema.Column(column)->path()->ToDotVector().size();
    if (depth <= kDeepestColumn) continue;
    fail(ErrorCode::kResourceExhausted, "'{}': column {} nests {} deep, at most {} can be read",
         path, column, depth, kDeepestColumn);
  }
}

class ParquetGroups final : public RowGroups {
 public:
  ParquetGroups(const ByteSourcePtr& source, arrow::MemoryPool* memory) : path_(source->path()) {
    parquet::ReaderProperties properties(memory);
    properties.set_thrift_string_size_limit(kLongestText);
    properties.set_thrift_container_size_limit(kMostListed);
    parquet::arrow::FileReaderBuilder builder;
    check_arrow(builder.Open(std::make_shared<ByteSourceFile>(source, memory, 0, source->size()),
                             properties),
                path_);
    check_depth(*builder.raw_reader()->metadata()->schema(), path_);
    parquet::ArrowReaderProperties reading;
    reading.set_pre_buffer(false);
    check_arrow(builder.memory_pool(memory)->properties(reading)->Build(&reader_), path_);
    check_arrow(reader_->GetSchema(&schema_), path_);
    const auto metadata = reader_->parquet_reader()->metadata();
    std::int64_t sum = 0;
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      rows_.push_back(metadata->RowGroup(group)->num_rows());
      check_group(static_cast<std::size_t>(group), rows_.back(), sum);
      sum += rows_.back();
    }
  }

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const arrow::Schema& schema() const override { return *schema_; }
  [[nodiscard]] std::span<const std::int64_t> rows() const override { return rows_; }

  [[nodiscard]] ArrowColumns read(std::size_t group, const std::vector<int>& fields) override {
    return guarded(path_, [&] { return read_group(group, fields); });
  }

 private:
  ArrowColumns read_group(std::size_t group, const std::vector<int>& fields) {
    std::vector<int> leaves;
    for (const int field : fields) {
      add_leaves(reader_->manifest().schema_fields.at(static_cast<std::size_t>(field)), leaves);
    }
    const auto metadata = reader_->parquet_reader()->metadata()->RowGroup(static_cast<int>(group));
    std::int64_t bytes = 0;
    for (const int leaf : leaves) {
      const std::int64_t more = metadata->ColumnChunk(leaf)->total_uncompressed_size();
      if (more < 0 || more > kMostGroupBytes - bytes) {
        fail(ErrorCode::kResourceExhausted,
             "'{}': the wanted columns of row group {} come to more than {} bytes: write smaller "
             "row groups",
             path_, group, kMostGroupBytes);
      }
      bytes += more;
    }
    std::shared_ptr<arrow::Table> table;
    check_arrow(reader_->ReadRowGroup(static_cast<int>(group), leaves, &table), path_);
    ArrowColumns columns = table->columns();
    check(group, fields, columns);
    return columns;
  }

  std::string path_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> rows_;
};

}  // namespace

std::unique_ptr<RowGroups> parquet_groups(const ByteSourcePtr& source, arrow::MemoryPool* memory) {
  return guarded(source->path(), [&]() -> std::unique_ptr<RowGroups> {
    return std::make_unique<ParquetGroups>(source, memory);
  });
}

}  // namespace harmonics::inline in_data
