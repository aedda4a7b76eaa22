// ByteSourceFile: what Arrow calls a file, over a ByteSource (private to data's Arrow part).
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>

#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_data {

/// The bytes from `first` on, `size` of them, which the source has. What is asked for beyond them
/// is not there: no buffer is larger than what can fill it. An Error of the source becomes a
/// Status. ReadAt may be called from several threads, the rest by one at a time.
class ByteSourceFile final : public arrow::io::RandomAccessFile {
 public:
  ByteSourceFile(ByteSourcePtr source, arrow::MemoryPool* memory, std::uint64_t first,
                 std::uint64_t size);

  arrow::Status Close() override;
  [[nodiscard]] bool closed() const override { return closed_; }
  [[nodiscard]] arrow::Result<std::int64_t> Tell() const override { return position_; }
  arrow::Status Seek(std::int64_t position) override;
  arrow::Result<std::int64_t> GetSize() override { return size_; }
  arrow::Result<std::int64_t> Read(std::int64_t count, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t count) override;
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t count, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position,
                                                       std::int64_t count) override;

 private:
  ByteSourcePtr source_;
  arrow::MemoryPool* memory_;
  std::uint64_t first_;
  std::int64_t size_;
  std::int64_t position_ = 0;
  bool closed_ = false;
};

}  // namespace harmonics::inline in_data
