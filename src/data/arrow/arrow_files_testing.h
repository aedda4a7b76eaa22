// Small files of columns for tests: the bytes that Arrow's own writers make.
#pragma once

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace harmonics::inline in_data {

enum class ColumnFormat { kParquet, kArrowFile, kArrowStream };

template <typename T>
T must(arrow::Result<T> result) {
  if (!result.ok()) throw std::logic_error(result.status().ToString());
  return std::move(result).ValueUnsafe();
}
inline void must(const arrow::Status& status) {
  if (!status.ok()) throw std::logic_error(status.ToString());
}

/// An array of these numbers; those without a value are null.
template <typename Builder, typename T>
std::shared_ptr<arrow::Array> array_of(const std::vector<std::optional<T>>& values) {
  Builder builder;
  for (const auto& value : values) must(value ? builder.Append(*value) : builder.AppendNull());
  return must(builder.Finish());
}

inline std::shared_ptr<arrow::Table> table_of(
    const std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

/// The table as a file with groups of so many rows.
inline std::string file_of(const arrow::Table& table, ColumnFormat format,
                           std::int64_t group_rows) {
  const auto sink = must(arrow::io::BufferOutputStream::Create());
  if (format == ColumnFormat::kParquet) {
    const auto schema = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    must(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), sink, group_rows,
                                    parquet::default_writer_properties(), schema));
  } else {
    const auto writer = must(format == ColumnFormat::kArrowFile
                                 ? arrow::ipc::MakeFileWriter(sink, table.schema())
                                 : arrow::ipc::MakeStreamWriter(sink, table.schema()));
    must(writer->WriteTable(table, group_rows));
    must(writer->Close());
  }
  return must(sink->Finish())->ToString();
}

}  // namespace harmonics::inline in_data
