// Whole-file reading with a ceiling, and writing that is all or nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_base {

/// Reads a file; one larger than `limit_bytes` is an error. Errors name the path.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::size_t limit_bytes = std::size_t{1} << 30);

/// What lies in a folder, by path, in order; nothing where there is no such folder. One that cannot
/// be read is an error. Use it instead of std::filesystem's iterators: the libtorch of PyPI brings
/// functions of its own under their names, whose objects are laid out otherwise.
[[nodiscard]] std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

/// Removes a file, or a folder with all that it holds; links are removed, not followed. What is not
/// there is no error. For the same reason not std::filesystem::remove_all.
void remove_tree(const std::filesystem::path& path);

/// A file that appears whole or not at all: bytes go to a temporary name beside the target, which
/// `commit` syncs and renames over it. Without `commit`, or after an error, the target is
/// untouched. Temporary files of killed processes for the same target are removed when the next one
/// starts. A link stays, and the file that it leads to is replaced; a folder is an error at once;
/// what is not a file (a device, a pipe, /dev/stdout) is written as it goes. One thread; errors
/// name the path.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(ByteSpan bytes);
  /// Overwrites bytes that were already written (a checksum that is known only at the end).
  void write_at(std::size_t offset, ByteSpan bytes);
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Descriptor descriptor_;
};

/// Writes `text` to `path` through AtomicFile.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace harmonics::inline in_base
