#include <harmonics/data/memory_producer.h>

#include <cstring>
#include <utility>

namespace harmonics::inline in_data {

MemoryProducer::MemoryProducer(Tensor rows) : rows_(std::move(rows)) {
  if (!rows_.defined() || rows_.shape().empty()) {
    fail(ErrorCode::kInvalidArgument, "a MemoryProducer needs a tensor with at least one axis");
  }
  if (rows_.device().kind != DeviceKind::kCpu) {
    fail(ErrorCode::kInvalidArgument, "a MemoryProducer needs a tensor on the CPU: copy it there");
  }
  spec_ = {Shape(rows_.shape().begin() + 1, rows_.shape().end()), rows_.dtype()};
}

void MemoryProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const std::size_t each = sample_bytes(spec_);
  if (each == 0) return;
  std::byte* to = out.data();
  for (const std::int64_t row : rows) {
    std::memcpy(to, rows_.bytes().data() + static_cast<std::size_t>(row) * each, each);
    to += each;
  }
}

}  // namespace harmonics::inline in_data
