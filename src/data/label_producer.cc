#include <harmonics/data/label_producer.h>

#include <cstring>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {
namespace {

std::int64_t whole_number(const std::byte* at, DType dtype) {
  const auto as = [&]<typename Whole>(Whole value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<std::int64_t>(value);
  };
  switch (dtype) {
    case DType::kInt64: return as(std::int64_t{});
    case DType::kInt32: return as(std::int32_t{});
    case DType::kInt8: return as(std::int8_t{});
    default: return as(std::uint8_t{});
  }
}

bool holds_labels(DType dtype) {
  return dtype == DType::kInt64 || dtype == DType::kInt32 || dtype == DType::kInt8 ||
         dtype == DType::kUInt8;
}

}  // namespace

LabelProducer::LabelProducer(IndexedProducerPtr source, std::int64_t classes, std::string judge,
                             LabelKind kind)
    : source_(std::move(source)), classes_(classes), judge_(std::move(judge)), kind_(kind) {
  if (source_ == nullptr) fail(ErrorCode::kInvalidArgument, "a LabelProducer needs a source");
  if (!holds_labels(source_->sample_spec().dtype)) {
    fail(ErrorCode::kInvalidArgument, "labels of {} are {}: whole numbers are needed", judge_,
         dtype_name(source_->sample_spec().dtype));
  }
}

bool LabelProducer::is_allowed(std::int64_t label) const {
  if (label >= 0) return label < classes_;
  return kind_ == LabelKind::kTokens || (kind_ == LabelKind::kClasses && label == kIgnoredLabel);
}

std::string LabelProducer::place_of(std::int64_t row, std::size_t element) const {
  const auto* places = dynamic_cast<const RowPlaces*>(source_.get());
  return places != nullptr ? places->place_of(row, element)
                           : format("row {}, element {}", row, element);
}

void LabelProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  source_->read(rows, out);
  const DType dtype = sample_spec().dtype;
  const std::size_t each = sample_bytes(sample_spec()) / dtype_size(dtype);
  for (std::size_t i = 0; i < rows.size() * each; ++i) {
    const std::int64_t label = whole_number(out.data() + i * dtype_size(dtype), dtype);
    if (is_allowed(label)) continue;
    const bool row = kind_ == LabelKind::kRows;
    fail(ErrorCode::kOutOfRange, "{}: the {} {} is none of the {} {} of '{}' (0 to {})",
         place_of(rows[i / each], i % each), row ? "id" : "label", label, classes_,
         row ? "rows" : "classes", judge_, classes_ - 1);
  }
}

}  // namespace harmonics::inline in_data
