#include "array_rows.h"

#include <cmath>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {

ArrayRows::ArrayRows(ByteSourcePtr source, ArrayHead head, const ArrayOptions& wishes)
    : source_(std::move(source)),
      scale_(wishes.scale),
      refuses_nan_(!wishes.allow_nan && is_floating(head.dtype)),
      data_offset_(head.data_offset) {
  const std::string& path = source_->path();
  const auto elements = static_cast<std::uint64_t>(element_count(head.shape));
  const std::uint64_t left = source_->size() - data_offset_;
  if (elements > left / head.element_bytes || elements * head.element_bytes != left) {
    fail(ErrorCode::kDataLoss,
         "'{}' is truncated or foreign: shape {} of {}-byte elements does not come to its {} bytes",
         path, shape_text(head.shape), head.element_bytes, source_->size());
  }
  count_ = head.shape[0];
  head.shape.erase(head.shape.begin());
  if (head.shape.empty()) head.shape.push_back(1);
  spec_ = {head.shape, wishes.dtype.value_or(scale_ == 1.0 ? head.dtype : DType::kFloat32)};
  row_elements_ = static_cast<std::size_t>(element_count(head.shape));
  row_bytes_ = row_elements_ * head.element_bytes;
  convert_ = head.convert_to(spec_.dtype);
  if (convert_ == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' cannot be read as {}: use float32, float64, int64, int32, int8 or uint8", path,
         dtype_name(spec_.dtype));
  }
  if (!std::isfinite(scale_) || (scale_ != 1.0 && !is_floating(spec_.dtype))) {
    fail(ErrorCode::kInvalidArgument,
         "'{}': a scale of {} with dtype {}; it must be finite and needs a float dtype", path,
         scale_, dtype_name(spec_.dtype));
  }
}

std::string ArrayRows::place_of(std::int64_t row, std::size_t element) const {
  return format("'{}' sample {}, element {}", source_->path(), row, element);
}

void ArrayRows::read(std::span<const std::int64_t> rows, std::span<std::byte> out) const {
  std::vector<char> raw(row_bytes_);
  std::byte* to = out.data();
  for (const std::int64_t row : rows) {
    source_->read_at(data_offset_ + static_cast<std::uint64_t>(row) * row_bytes_, raw);
    if (!convert_(raw.data(), row_elements_, scale_, to)) {
      fail(ErrorCode::kOutOfRange, "'{}' sample {}: a value is no {} or out of its range",
           source_->path(), row, dtype_name(spec_.dtype));
    }
    const auto nan = refuses_nan_ ? first_nan(spec_.dtype, to, row_elements_) : std::nullopt;
    if (nan) {
      fail(ErrorCode::kInvalidArgument,
           "{}: NaN is no number to compute with: mend it, leave the sample out, or accept it with "
           "nan=allow",
           place_of(row, *nan));
    }
    to += byte_count(spec_);
  }
}

}  // namespace harmonics::inline in_data
