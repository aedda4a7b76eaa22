#include <harmonics/data/array_producer.h>

#include <utility>

#include "array_rows.h"

namespace harmonics::inline in_data {

ArrayProducer::ArrayProducer(std::unique_ptr<const ArrayRows> rows) : rows_(std::move(rows)) {}
ArrayProducer::~ArrayProducer() = default;

TensorSpec ArrayProducer::sample_spec() const { return rows_->spec(); }
std::int64_t ArrayProducer::row_count() const { return rows_->count(); }

std::string ArrayProducer::place_of(std::int64_t row, std::size_t element) const {
  return rows_->place_of(row, element);
}

void ArrayProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  rows_->read(rows, out);
}

}  // namespace harmonics::inline in_data
