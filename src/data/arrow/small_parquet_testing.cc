#include "small_parquet_testing.h"

#include "arrow_files_testing.h"

namespace harmonics::inline in_data {

std::string small_parquet() {
  const auto column = array_of<arrow::Int64Builder, std::int64_t>({0, 1, 2, 3, 4, 5, 6});
  return file_of(*table_of({{"a", column}}), ColumnFormat::kParquet, 3);
}

}  // namespace harmonics::inline in_data
