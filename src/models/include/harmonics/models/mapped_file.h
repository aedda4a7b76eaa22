// A file seen as bytes, without being read into memory.
#pragma once

#include <filesystem>
#include <memory>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_models {

/// Maps a whole regular file for reading; the kernel brings in what is looked at. The file must not
/// be cut short while it is mapped: replace files by renaming, as AtomicFile does. Any thread.
class MappedFile {
 public:
  /// What is not a regular file, or cannot be read, is an Error that names the path.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] ByteSpan bytes() const { return {data_, size_}; }
  /// Lets go of the pages of a range; they are read again where they are needed again.
  void forget(std::uint64_t offset, std::uint64_t size) const;

 private:
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

using MappedFilePtr = std::shared_ptr<const MappedFile>;

}  // namespace harmonics::inline in_models
