#include "arrow_memory.h"

#include <arrow/status.h>

namespace harmonics::inline in_data {

arrow::Status CappedMemory::take(std::int64_t bytes) {
  if (bytes > ceiling_ - taken_.fetch_add(bytes)) {
    taken_ -= bytes;
    return arrow::Status::OutOfMemory("past ", ceiling_, " bytes");
  }
  if (bytes > 0) total_ += bytes;
  ++count_;
  return arrow::Status::OK();
}

arrow::Status CappedMemory::Allocate(std::int64_t size, std::int64_t alignment,
                                     std::uint8_t** out) {
  ARROW_RETURN_NOT_OK(take(size));
  arrow::Status status = below_->Allocate(size, alignment, out);
  if (!status.ok()) taken_ -= size;
  return status;
}

arrow::Status CappedMemory::Reallocate(std::int64_t old_size, std::int64_t new_size,
                                       std::int64_t alignment, std::uint8_t** at) {
  ARROW_RETURN_NOT_OK(take(new_size - old_size));
  arrow::Status status = below_->Reallocate(old_size, new_size, alignment, at);
  if (!status.ok()) taken_ -= new_size - old_size;
  return status;
}

void CappedMemory::Free(std::uint8_t* buffer, std::int64_t size, std::int64_t alignment) {
  below_->Free(buffer, size, alignment);
  taken_ -= size;
}

}  // namespace harmonics::inline in_data
