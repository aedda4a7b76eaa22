#include <harmonics/data/producer.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace harmonics::inline in_data {

std::size_t sample_bytes(const TensorSpec& spec) {
  return static_cast<std::size_t>(byte_count(spec));
}

std::int64_t Producer::next_rows(std::int64_t count, std::span<std::byte> out) {
  if (batched()) {
    fail(ErrorCode::kFailedPrecondition,
         "samples were asked of a producer that yields batches: read its batches with next()");
  }
  const TensorSpec spec = sample_spec();
  const std::size_t each = sample_bytes(spec);
  const ProducerPosition before = position();
  std::int64_t done = 0;
  try {
    for (; done < count; ++done) {
      const std::optional<Tensor> sample = next();
      if (!sample) break;
      if (sample->spec() != spec || sample->device().kind != DeviceKind::kCpu) {
        fail(ErrorCode::kFailedPrecondition,
             "sample {} of a producer is {} where it promised {} on the CPU",
             before.delivered + done, spec_text(sample->spec()), spec_text(spec));
      }
      if (each > 0) {
        std::memcpy(out.data() + static_cast<std::size_t>(done) * each, sample->bytes().data(),
                    each);
      }
    }
  } catch (...) {
    seek(before);
    throw;
  }
  return done;
}

std::vector<std::int64_t> Producer::lengths_ahead(std::int64_t /*count*/) { return {}; }

void Producer::skip(std::int64_t count) {
  while (count > 0 && next()) --count;
}

void Producer::seek(const ProducerPosition& position) {
  begin_epoch(position.order);
  skip(position.delivered);
  const std::int64_t reached = this->position().delivered;
  if (reached != position.delivered) {
    fail(ErrorCode::kFailedPrecondition,
         "cannot go on after {} tensors of epoch {}: the epoch ends after {}; the data is not what "
         "it "
         "was when the position was saved",
         position.delivered, position.order.epoch, reached);
  }
}

void IndexedProducer::begin_epoch(const SampleOrder& order) { position_ = {order, 0}; }

std::optional<Tensor> IndexedProducer::next() {
  if (position_.delivered >= row_count()) return std::nullopt;
  const TensorSpec spec = sample_spec();
  Tensor sample = Tensor::empty(spec.shape, spec.dtype);
  read_run(position_.delivered, 1, sample.mutable_bytes());
  ++position_.delivered;
  return sample;
}

std::int64_t IndexedProducer::next_rows(std::int64_t count, std::span<std::byte> out) {
  count = std::clamp<std::int64_t>(row_count() - position_.delivered, 0, count);
  if (count == 0) return 0;
  read_run(position_.delivered, count,
           out.first(static_cast<std::size_t>(count) * sample_bytes(sample_spec())));
  position_.delivered += count;
  return count;
}

std::vector<std::int64_t> IndexedProducer::row_lengths(std::span<const std::int64_t> /*rows*/) {
  return {};
}

std::vector<std::int64_t> IndexedProducer::lengths_ahead(std::int64_t count) {
  count = std::clamp<std::int64_t>(row_count() - position_.delivered, 0, count);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), position_.delivered);
  return row_lengths(rows);
}

void IndexedProducer::skip(std::int64_t count) {
  const std::int64_t left = row_count() - position_.delivered;
  if (count > 0) position_.delivered += std::min(count, left);
}

void IndexedProducer::read_run(std::int64_t first, std::int64_t count, std::span<std::byte> out) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  read(rows, out);
}

void IndexedProducer::check_read(std::span<const std::int64_t> rows,
                                 std::span<std::byte> out) const {
  const std::int64_t count = row_count();
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= count) {
      fail(ErrorCode::kOutOfRange, "row {} was asked of a source that has rows 0 to {}", row,
           count - 1);
    }
  }
  const std::size_t wanted = rows.size() * sample_bytes(sample_spec());
  if (out.size() != wanted) {
    fail(ErrorCode::kInvalidArgument, "{} rows take {} bytes, room for {} was given", rows.size(),
         wanted, out.size());
  }
}

}  // namespace harmonics::inline in_data
