#include <harmonics/data/cache_producer.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include <harmonics/base/log.h>

#include "lazy.h"

namespace harmonics::inline in_data {
namespace {

constexpr std::int64_t kRowsPerRead = 4096;

std::vector<std::byte> read_all(IndexedProducer& source) {
  const std::size_t each = sample_bytes(source.sample_spec());
  const std::int64_t count = source.row_count();
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * each);
  std::vector<std::int64_t> rows;
  for (std::int64_t first = 0; first < count; first += kRowsPerRead) {
    rows.resize(static_cast<std::size_t>(std::min(kRowsPerRead, count - first)));
    std::iota(rows.begin(), rows.end(), first);
    source.read(
        rows, std::span(bytes).subspan(static_cast<std::size_t>(first) * each, rows.size() * each));
  }
  return bytes;
}

}  // namespace

struct CacheProducer::Stored {
  Lazy<std::vector<std::byte>> bytes;
};

CacheProducer::CacheProducer(IndexedProducerPtr source, std::size_t limit_bytes)
    : source_(std::move(source)) {
  if (source_ == nullptr) fail(ErrorCode::kInvalidArgument, "a CacheProducer needs a source");
  const std::size_t each = sample_bytes(source_->sample_spec());
  const auto count = static_cast<std::size_t>(source_->row_count());
  if (each == 0 || count <= limit_bytes / each) {
    stored_ = std::make_unique<Stored>();
  } else {
    log_warn("data", "{} samples of {} bytes are more than the cache limit of {} bytes: not cached",
             count, each, limit_bytes);
  }
}

CacheProducer::~CacheProducer() = default;

void CacheProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  if (stored_ == nullptr) return source_->read(rows, out);
  check_read(rows, out);
  const auto& bytes = stored_->bytes.get([this] { return read_all(*source_); });
  const std::size_t each = sample_bytes(sample_spec());
  if (each == 0) return;
  std::byte* to = out.data();
  for (const std::int64_t row : rows) {
    std::memcpy(to, bytes.data() + static_cast<std::size_t>(row) * each, each);
    to += each;
  }
}

}  // namespace harmonics::inline in_data
