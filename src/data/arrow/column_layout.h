// What the wanted columns of a file are to a sample: their kinds, places and numbers (private to
// data's Arrow part).
#pragma once

#include <arrow/array.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <harmonics/tensor/tensor.h>

#include "element_conversion.h"
#include "row_groups.h"

namespace harmonics::inline in_data {

/// What is wanted of a file of columns.
struct ColumnWishes {
  std::string columns;  // as CsvOptions says; empty: all
  std::optional<DType> dtype;
  double scale = 1.0;
  Shape shape;
  bool allow_nan = false;
};

/// A kind of number that a column may hold.
struct ColumnElement {
  arrow::Type::type type;
  std::size_t bytes;
  DType dtype;
  Convert (*convert_to)(DType);
};

/// One column of a sample.
struct ColumnPlace {
  std::string name;
  int field = 0;          // of the schema
  std::size_t width = 1;  // elements of a row
  std::size_t first = 0;  // its first element within a sample
  const ColumnElement* element = nullptr;
  Convert convert = nullptr;
};

/// How a row of the wanted columns becomes a sample. A value that never changes.
class ColumnLayout {
 public:
  /// Columns that hold no numbers, that differ in kind without a dtype that all become, or wishes
  /// that do not fit are an Error that names file and column.
  ColumnLayout(const RowGroups& groups, const ColumnWishes& wishes);

  [[nodiscard]] const TensorSpec& spec() const { return spec_; }
  /// The fields to read, ascending.
  [[nodiscard]] const std::vector<int>& fields() const { return fields_; }
  /// The samples of a group whose first row has the number `first_row`. A null, a NaN that is not
  /// allowed, a number that does not fit the dtype or a list of another length is an Error with row
  /// and column.
  [[nodiscard]] std::vector<std::byte> samples(const ArrowColumns& columns, std::int64_t rows,
                                               std::int64_t first_row) const;
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const;

 private:
  void add(const arrow::Schema& schema, std::size_t field, bool alone);
  void settle_dtype(const ColumnWishes& wishes);
  void copy(const ColumnPlace& column, const arrow::Array& values, std::int64_t first_row,
            std::byte* out) const;

  std::string path_;
  double scale_;
  bool allow_nan_;
  Shape wanted_shape_;
  Shape own_shape_;  // of a column that stands alone
  std::vector<ColumnPlace> columns_;
  std::vector<int> fields_;
  TensorSpec spec_;
};

}  // namespace harmonics::inline in_data
