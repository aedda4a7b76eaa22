// Rows of a stream that are kept as they come, so that whoever goes on need not compute them again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <harmonics/base/bytes.h>
#include <harmonics/base/descriptor.h>

namespace harmonics::inline in_data {

/// The most batches that are kept under one name.
inline constexpr std::int64_t kMaxKeptBatches = std::int64_t{1} << 32;

/// How many batches lie whole in the folder under that name, from the first on; 0 where there is
/// nothing. Reads all of them: what a crash has torn or left out does not count, nor does what
/// comes behind it.
[[nodiscard]] std::int64_t kept_batches(const std::filesystem::path& folder,
                                        const std::string& name);

/// The text of batches, one behind the other, in FOLDER/NAME.rows, and beside it, in
/// FOLDER/NAME.marks, a line for each: where its text ends, and a check sum of all text up to
/// there. A batch is handed to the system before the next one is taken: it survives the death of
/// the process; `finish` makes all of them survive that of the machine.
///
/// One thread. A second one that opens the same name while this one lives is refused, in any
/// process of any machine whose file system knows locks. Errors name the path.
class KeptRows {
 public:
  /// Makes the folder where it is missing, keeps the first `batches` that lie there and forgets
  /// what comes behind; fewer than that is an Error.
  KeptRows(const std::filesystem::path& folder, const std::string& name, std::int64_t batches);

  /// The text of the next batch.
  void add(std::string_view text);
  /// All has been added: onto the disk with it.
  void finish();
  /// All text from the first batch on, in pieces.
  void read(const std::function<void(ByteSpan)>& take) const;

  [[nodiscard]] std::int64_t batches() const { return batches_; }

 private:
  std::filesystem::path rows_path_;
  std::filesystem::path marks_path_;
  Descriptor rows_;
  Descriptor marks_;
  std::int64_t batches_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace harmonics::inline in_data
