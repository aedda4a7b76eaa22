#include "column_layout.h"

#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <harmonics/base/error.h>

#include "csv/csv_columns.h"

namespace harmonics::inline in_data {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 28;  // of a sample

template <typename T>
constexpr ColumnElement column_element(arrow::Type::type type, DType dtype) {
  return {type, sizeof(T), dtype, convert_to<T, std::endian::little>};
}

bool copy_bools(const char* in, std::size_t count, double, std::byte* out) {
  std::memcpy(out, in, count);
  return true;
}

// Bits come as bytes of 0 and 1.
Convert bools_to(DType dtype) {
  return dtype == DType::kBool ? copy_bools : convert_to<std::uint8_t, std::endian::little>(dtype);
}

constexpr ColumnElement kColumnElements[] = {
    column_element<float>(arrow::Type::FLOAT, DType::kFloat32),
    column_element<double>(arrow::Type::DOUBLE, DType::kFloat64),
    column_element<std::int64_t>(arrow::Type::INT64, DType::kInt64),
    column_element<std::int32_t>(arrow::Type::INT32, DType::kInt32),
    column_element<std::int16_t>(arrow::Type::INT16, DType::kInt32),
    column_element<std::int8_t>(arrow::Type::INT8, DType::kInt8),
    column_element<std::uint32_t>(arrow::Type::UINT32, DType::kInt64),
    column_element<std::uint16_t>(arrow::Type::UINT16, DType::kInt32),
    column_element<std::uint8_t>(arrow::Type::UINT8, DType::kUInt8),
    {arrow::Type::BOOL, 1, DType::kBool, bools_to},
};

const ColumnElement* element_of(const arrow::DataType& type) {
  const auto* const found =
      std::ranges::find(kColumnElements, type.id(), [](const auto& each) { return each.type; });
  return found == std::end(kColumnElements) ? nullptr : found;
}

bool is_list(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
}

// Types may nest as deep as a file likes.
std::string type_text(const arrow::DataType& type) {
  constexpr std::size_t kShown = 100;
  const std::string text = type.ToString();
  return text.size() > kShown ? text.substr(0, kShown) + "…" : text;
}

// The first null of an array; it has one.
std::int64_t first_null(const arrow::Array& array) {
  std::int64_t at = 0;
  while (!array.IsNull(at)) ++at;
  return at;
}

// The values of a list array, those of its own rows only; nothing where the list of row `*wrong` is
// not `width` long.
template <typename List>
std::shared_ptr<arrow::Array> list_values(const arrow::Array& array, std::int64_t width,
                                          std::int64_t* wrong) {
  const auto& list = static_cast<const List&>(array);
  for (*wrong = 0; *wrong < list.length(); ++*wrong) {
    if (list.value_length(*wrong) != width) return nullptr;
  }
  const std::int64_t first = list.length() == 0 ? 0 : list.value_offset(0);
  return list.values()->Slice(first, list.length() * width);
}

// What a column of this type is: elements, and the shape of a row. `listed` is the shape that lists
// of any length must have.
struct ColumnKind {
  const ColumnElement* element = nullptr;
  Shape shape;
};

std::optional<ColumnKind> kind_of(const arrow::DataType& type, const Shape& listed) {
  if (const ColumnElement* element = element_of(type)) return ColumnKind{element, {}};
  if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(type);
    auto kind = kind_of(*list.value_type(), {});
    if (kind) kind->shape.insert(kind->shape.begin(), list.list_size());
    return kind;
  }
  if (type.id() == arrow::Type::EXTENSION) {
    const auto* tensor = dynamic_cast<const arrow::extension::FixedShapeTensorType*>(&type);
    if (tensor == nullptr || !tensor->permutation().empty()) return std::nullopt;
    auto kind = kind_of(*tensor->storage_type(), {});
    if (kind) kind->shape.assign(tensor->shape().begin(), tensor->shape().end());
    return kind;
  }
  if (is_list(type) && !listed.empty()) {
    const ColumnElement* element = element_of(*type.field(0)->type());
    if (element != nullptr) return ColumnKind{element, listed};
  }
  return std::nullopt;
}

}  // namespace

ColumnLayout::ColumnLayout(const RowGroups& groups, const ColumnWishes& wishes)
    : path_(groups.path()),
      scale_(wishes.scale),
      allow_nan_(wishes.allow_nan),
      wanted_shape_(wishes.shape) {
  const arrow::Schema& schema = groups.schema();
  const std::vector<std::string> names = schema.field_names();
  const auto selected = select_columns(wishes.columns, names, names.size());
  if (selected.empty()) fail(ErrorCode::kInvalidArgument, "'{}' has no columns", path_);
  for (const std::size_t field : selected) add(schema, field, selected.size() == 1);
  for (const ColumnPlace& column : columns_) fields_.push_back(column.field);
  std::ranges::sort(fields_);
  settle_dtype(wishes);
  const ColumnPlace& last = columns_.back();
  const auto elements = static_cast<std::int64_t>(last.first + last.width);
  spec_.shape = own_shape_.empty() ? Shape{elements} : own_shape_;
  if (wanted_shape_.empty()) return;
  if (element_count(wanted_shape_) != elements) {
    fail(ErrorCode::kInvalidArgument, "'{}': the shape {} does not hold the {} numbers of a row",
         path_, shape_text(wanted_shape_), elements);
  }
  spec_.shape = wanted_shape_;
}

void ColumnLayout::add(const arrow::Schema& schema, std::size_t field, bool alone) {
  const arrow::Field& of = *schema.field(static_cast<int>(field));
  auto kind = kind_of(*of.type(), alone ? wanted_shape_ : Shape{});
  if (!kind) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' column '{}' holds {}: only numbers, bools and lists of one size can be read; choose "
         "others with columns=…{}",
         path_, of.name(), type_text(*of.type()),
         is_list(*of.type()) ? ", or read it alone and say how long every list is with shape=…"
                             : "");
  }
  std::size_t width = 1;
  for (const std::int64_t extent : kind->shape) {
    if (extent < 1 || static_cast<std::size_t>(extent) > kMostElements / width) {
      fail(ErrorCode::kInvalidArgument, "'{}' column '{}': a row of the shape {} cannot be read",
           path_, of.name(), shape_text(kind->shape));
    }
    width *= static_cast<std::size_t>(extent);
  }
  const std::size_t first = columns_.empty() ? 0 : columns_.back().first + columns_.back().width;
  if (first + width > kMostElements) {
    fail(ErrorCode::kResourceExhausted, "'{}': a row has more than {} numbers", path_,
         kMostElements);
  }
  if (alone) own_shape_ = kind->shape;
  columns_.push_back({of.name(), static_cast<int>(field), width, first, kind->element, nullptr});
}

void ColumnLayout::settle_dtype(const ColumnWishes& wishes) {
  spec_.dtype =
      wishes.dtype.value_or(scale_ == 1.0 ? columns_.front().element->dtype : DType::kFloat32);
  if (!std::isfinite(scale_) || (scale_ != 1.0 && !is_floating(spec_.dtype))) {
    fail(ErrorCode::kInvalidArgument,
         "'{}': a scale of {} with dtype {}; it must be finite and needs a float dtype", path_,
         scale_, dtype_name(spec_.dtype));
  }
  for (ColumnPlace& column : columns_) {
    const bool free = !wishes.dtype && scale_ == 1.0;
    if (free && column.element->dtype != spec_.dtype) {
      fail(ErrorCode::kInvalidArgument,
           "'{}': column '{}' is {} and column '{}' {}: say with dtype=… what both become", path_,
           columns_.front().name, dtype_name(spec_.dtype), column.name,
           dtype_name(column.element->dtype));
    }
    column.convert = column.element->convert_to(spec_.dtype);
    if (column.convert == nullptr) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' column '{}' cannot be read as {}: use float32, float64, int64, int32, int8 or "
           "uint8",
           path_, column.name, dtype_name(spec_.dtype));
    }
  }
}

std::string ColumnLayout::place_of(std::int64_t row, std::size_t element) const {
  const auto after = std::ranges::upper_bound(columns_, element, {}, &ColumnPlace::first);
  const ColumnPlace& column = *(after - 1);
  const std::string place = format("'{}' row {}, column '{}'", path_, row, column.name);
  return column.width == 1 ? place : place + format(", element {}", element - column.first);
}

void ColumnLayout::copy(const ColumnPlace& column, const arrow::Array& values,
                        std::int64_t first_row, std::byte* out) const {
  const std::size_t row_bytes = column.width * column.element->bytes;
  const auto rows = static_cast<std::size_t>(values.length()) / column.width;
  if (rows == 0) return;
  std::vector<char> bools;
  const arrow::ArrayData& data = *values.data();
  const std::uint8_t* const buffer = data.buffers[1]->data();
  const char* in = reinterpret_cast<const char*>(buffer) +
                   static_cast<std::size_t>(data.offset) * column.element->bytes;
  if (column.element->type == arrow::Type::BOOL) {
    for (std::int64_t i = 0; i < data.length; ++i) {
      bools.push_back(arrow::bit_util::GetBit(buffer, data.offset + i) ? 1 : 0);
    }
    in = bools.data();
  }
  const std::size_t sample = byte_count(spec_);
  out += column.first * dtype_size(spec_.dtype);
  for (std::size_t row = 0; row < rows; ++row, in += row_bytes, out += sample) {
    const std::int64_t number = first_row + static_cast<std::int64_t>(row);
    if (!column.convert(in, column.width, scale_, out)) {
      fail(ErrorCode::kOutOfRange, "'{}' row {}, column '{}': a value is no {} or out of its range",
           path_, number, column.name, dtype_name(spec_.dtype));
    }
    const auto nan = allow_nan_ ? std::nullopt : first_nan(spec_.dtype, out, column.width);
    if (nan) {
      fail(ErrorCode::kInvalidArgument,
           "{}: NaN is no number to compute with: mend it, leave the row out, or accept it with "
           "nan=allow",
           place_of(number, column.first + *nan));
    }
  }
}

namespace {

// The numbers of a chunk, one after another, and the row (of the chunk) at fault where there is
// one.
struct FlatValues {
  std::shared_ptr<arrow::Array> values;
  std::int64_t wrong_row = 0;
  std::string_view wrong;
};

FlatValues flat_values(std::shared_ptr<arrow::Array> array, std::size_t width) {
  std::int64_t per_row = 1;  // values of `array` that a row has
  while (true) {
    if (array->null_count() > 0) {
      return {nullptr, first_null(*array) / per_row,
              "null is no number to compute with: fill it or leave the row out"};
    }
    std::int64_t wrong = 0;
    if (array->type_id() == arrow::Type::EXTENSION) {
      array = static_cast<const arrow::ExtensionArray&>(*array).storage();
    } else if (array->type_id() == arrow::Type::FIXED_SIZE_LIST) {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(*array);
      const std::int64_t size = list.list_type()->list_size();
      array = list.values()->Slice(list.value_offset(0), list.length() * size);
      per_row *= size;
    } else if (array->type_id() == arrow::Type::LIST) {
      array = list_values<arrow::ListArray>(*array, static_cast<std::int64_t>(width), &wrong);
    } else if (array->type_id() == arrow::Type::LARGE_LIST) {
      array = list_values<arrow::LargeListArray>(*array, static_cast<std::int64_t>(width), &wrong);
    } else {
      return {std::move(array), 0, ""};
    }
    if (array == nullptr) return {nullptr, wrong, "its list has another length than shape=… says"};
  }
}

}  // namespace

std::vector<std::byte> ColumnLayout::samples(const ArrowColumns& columns, std::int64_t rows,
                                             std::int64_t first_row) const {
  const std::size_t sample = byte_count(spec_);
  std::vector<std::byte> out(static_cast<std::size_t>(rows) * sample);
  for (const ColumnPlace& column : columns_) {
    const auto read =
        static_cast<std::size_t>(std::ranges::find(fields_, column.field) - fields_.begin());
    std::int64_t row = 0;
    for (const auto& chunk : columns[read]->chunks()) {
      const FlatValues flat = flat_values(chunk, column.width);
      if (flat.values == nullptr) {
        fail(ErrorCode::kInvalidArgument, "'{}' row {}, column '{}': {}", path_,
             first_row + row + flat.wrong_row, column.name, flat.wrong);
      }
      copy(column, *flat.values, first_row + row,
           out.data() + static_cast<std::size_t>(row) * sample);
      row += chunk->length();
    }
  }
  return out;
}

}  // namespace harmonics::inline in_data
