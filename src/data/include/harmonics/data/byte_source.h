// Bytes that are read at offsets: the bottom of every producer over a file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace harmonics::inline in_data {

/// A file of this machine, or one that the caller reads (from another machine, an archive …). All
/// members may be called from several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills `out` from `offset` on; a source that is too short for that is an Error (kDataLoss).
  virtual void read_at(std::uint64_t offset, std::span<char> out) const = 0;

  /// The size when the source was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// How errors name it.
  [[nodiscard]] const std::string& path() const { return path_; }

 protected:
  explicit ByteSource(std::string path, std::uint64_t size = 0)
      : path_(std::move(path)), size_(size) {}
  void set_size(std::uint64_t size) { size_ = size; }

 private:
  std::string path_;
  std::uint64_t size_;
};

using ByteSourcePtr = std::shared_ptr<const ByteSource>;
/// Opens what a path names; what cannot be opened is an Error.
using OpenBytes = std::function<ByteSourcePtr(const std::string& path)>;

/// A regular file of this machine. A missing file, a folder or anything else that has no offsets is
/// an Error with the path.
[[nodiscard]] ByteSourcePtr open_file(const std::string& path);

}  // namespace harmonics::inline in_data
