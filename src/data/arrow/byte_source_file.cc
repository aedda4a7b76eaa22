#include "byte_source_file.h"

#include <arrow/buffer.h>
#include <arrow/result.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {

ByteSourceFile::ByteSourceFile(ByteSourcePtr source, arrow::MemoryPool* memory, std::uint64_t first,
                               std::uint64_t size)
    : source_(std::move(source)),
      memory_(memory),
      first_(first),
      size_(static_cast<std::int64_t>(size)) {}

arrow::Status ByteSourceFile::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

arrow::Status ByteSourceFile::Seek(std::int64_t position) {
  if (position < 0) return arrow::Status::Invalid("a place before the beginning");
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<std::int64_t> ByteSourceFile::ReadAt(std::int64_t position, std::int64_t count,
                                                   void* out) {
  if (position < 0 || count < 0) return arrow::Status::Invalid("a place before the beginning");
  const std::int64_t there = position < size_ ? std::min(count, size_ - position) : 0;
  try {
    if (there > 0) {
      source_->read_at(first_ + static_cast<std::uint64_t>(position),
                       {static_cast<char*>(out), static_cast<std::size_t>(there)});
    }
  } catch (const Error& error) {
    return arrow::Status::IOError(error.what());
  }
  return there;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ByteSourceFile::ReadAt(std::int64_t position,
                                                                     std::int64_t count) {
  if (position < 0 || count < 0) return arrow::Status::Invalid("a place before the beginning");
  const std::int64_t there = position < size_ ? std::min(count, size_ - position) : 0;
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(there, memory_));
  ARROW_RETURN_NOT_OK(ReadAt(position, there, buffer->mutable_data()).status());
  return buffer;
}

arrow::Result<std::int64_t> ByteSourceFile::Read(std::int64_t count, void* out) {
  ARROW_ASSIGN_OR_RAISE(const std::int64_t read, ReadAt(position_, count, out));
  position_ += read;
  return read;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ByteSourceFile::Read(std::int64_t count) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, count));
  position_ += buffer->size();
  return buffer;
}

}  // namespace harmonics::inline in_data
