// Texts of a file, a line each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_text {

inline constexpr std::size_t kMaxTextRows = std::size_t{1} << 28;
inline constexpr std::size_t kMaxRowBytes = std::size_t{64} << 20;

/// The lines of a file, of which each is a row: empty ones too, but not what follows the last line
/// end. Lines end with LF or CRLF; a byte order mark is passed over. The constructor walks over the
/// file once and keeps 8 bytes for each line. All members may be called from several threads at
/// once.
class TextRows {
 public:
  explicit TextRows(ByteSourcePtr source);

  [[nodiscard]] std::int64_t count() const {
    return static_cast<std::int64_t>(offsets_.size()) - 1;
  }
  /// The line of a row, as it stands.
  [[nodiscard]] std::string line(std::int64_t row) const;
  /// The line as JSON; anything else is an Error that names file and line.
  [[nodiscard]] Json json(std::int64_t row) const;
  /// The text of a row of JSON: the line itself where it is one, else the member `field` of an
  /// object. Neither is an Error that names file and line.
  [[nodiscard]] std::string json_text(std::int64_t row, const std::string& field) const;
  /// How errors name a row: 'path' line 12.
  [[nodiscard]] std::string place_of(std::int64_t row) const;

 private:
  ByteSourcePtr source_;
  std::vector<std::uint64_t> offsets_;  // where each line begins, and where the last one ends
};

}  // namespace harmonics::inline in_text
