// Which pictures there are, and what they show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_images {

inline constexpr std::size_t kMaxImages = 10'000'000;
inline constexpr std::size_t kMaxImageClasses = 1'000'000;

/// A value that never changes.
class ImageList {
 public:
  /// A file is one picture. In a folder every file that ends in .png, .jpg or .jpeg is one, sorted
  /// by name; where it has folders, each of them is a class, numbered in the order of their names,
  /// with all pictures below it. A folder without a picture is an Error.
  [[nodiscard]] static ImageList of_folder(const std::filesystem::path& place);

  /// What a table lists, in its order: CSV with the columns `file` (or `file_name`) and `label`, or
  /// lines of JSON with members of these names. Files are relative to `folder`. Labels are whole
  /// numbers from 0 on, or names, which are numbered in their order; a table without them has none.
  [[nodiscard]] static ImageList of_table(const std::filesystem::path& folder,
                                          const ByteSource& table);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(files_.size()); }
  /// Where the picture of a row lies.
  [[nodiscard]] std::filesystem::path path(std::int64_t row) const;
  /// The class of each row; empty where nothing says it.
  [[nodiscard]] const std::vector<std::int64_t>& labels() const { return labels_; }
  /// The names of the classes, by number; empty where labels are numbers.
  [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }

 private:
  void read_folder();
  void name_labels(const std::vector<std::string>& names);

  std::filesystem::path folder_;
  std::vector<std::string> files_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> classes_;
};

}  // namespace harmonics::inline in_images
