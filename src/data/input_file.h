// A file that is read at offsets: the bottom of every producer over a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace harmonics {

/// An open regular file. Reads with pread, never through a mapping, so that a file that shrinks
/// while it is read is an Error and not a crash. All members may be called from several threads at
/// once.
class InputFile {
 public:
  /// A missing file, a folder or anything else that has no offsets is an Error with the path.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Fills `out` from `offset` on; a file that is too short for that is an Error (kDataLoss).
  void read_at(std::uint64_t offset, std::span<char> out) const;

  /// The size when the file was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace harmonics
