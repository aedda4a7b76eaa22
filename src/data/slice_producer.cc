#include <harmonics/data/slice_producer.h>

#include <cmath>
#include <numeric>
#include <utility>

#include <harmonics/base/random.h>

namespace harmonics::inline in_data {

SliceProducer::SliceProducer(IndexedProducerPtr source, std::vector<std::int64_t> rows)
    : source_(std::move(source)), rows_(std::move(rows)) {
  if (source_ == nullptr) fail(ErrorCode::kInvalidArgument, "a SliceProducer needs a source");
  const std::int64_t count = source_->row_count();
  for (const std::int64_t row : rows_) {
    if (row < 0 || row >= count) {
      fail(ErrorCode::kOutOfRange, "a SliceProducer takes row {} of a source that has {} rows", row,
           count);
    }
  }
}

std::vector<std::int64_t> SliceProducer::of_source(std::span<const std::int64_t> rows) const {
  std::vector<std::int64_t> found;
  found.reserve(rows.size());
  for (const std::int64_t row : rows) found.push_back(rows_.at(static_cast<std::size_t>(row)));
  return found;
}

void SliceProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  source_->read(of_source(rows), out);
}

std::vector<std::int64_t> SliceProducer::row_lengths(std::span<const std::int64_t> rows) {
  return source_->row_lengths(of_source(rows));
}

Split train_test_split(const IndexedProducerPtr& source, double fraction, std::uint64_t seed) {
  if (source == nullptr) fail(ErrorCode::kInvalidArgument, "there is no source to split");
  if (!(fraction >= 0.0 && fraction < 1.0)) {
    fail(ErrorCode::kInvalidArgument,
         "a test part of {}: the fraction must be at least 0 and below 1", fraction);
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(source->row_count()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  Random random(seed, "split");
  shuffle(rows, random);
  const auto test = std::llround(fraction * static_cast<double>(rows.size()));
  const auto cut = rows.end() - test;
  return {std::make_shared<SliceProducer>(source, std::vector<std::int64_t>(rows.begin(), cut)),
          std::make_shared<SliceProducer>(source, std::vector<std::int64_t>(cut, rows.end()))};
}

}  // namespace harmonics::inline in_data
