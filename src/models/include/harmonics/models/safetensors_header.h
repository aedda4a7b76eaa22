// The header of safetensors files: names, dtypes, shapes and places, as text.
//
// Layout of a file: u64 header length, JSON header, data. Everything that a header claims is
// checked against the size of the file before anything is allocated for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/base/json.h>
#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_models {

inline constexpr std::size_t kMaxSafetensorsHeader = std::size_t{100} << 20;
/// Bytes before the header.
inline constexpr std::size_t kSafetensorsPrefix = 8;

/// One tensor; its bytes lie at [begin, end) of the data, which follows the header.
struct SafetensorsEntry {
  std::string name;
  TensorSpec spec;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  /// In the order of the header; together they cover the data without gaps or overlaps.
  std::vector<SafetensorsEntry> tensors;
  /// Where the data begins in the file.
  std::uint64_t data_offset = 0;
};

/// How many bytes of header a file of `file_size` bytes has, from its first eight. What does not
/// fit is an Error (kDataLoss) that names `origin`.
[[nodiscard]] std::uint64_t safetensors_header_size(ByteSpan prefix, std::uint64_t file_size,
                                                    std::string_view origin);

/// Reads a header that precedes `data_size` bytes of data. Anything wrong is an Error (kDataLoss).
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text,
                                                         std::uint64_t data_size,
                                                         std::string_view origin);

/// The metadata alone; tensors are not looked at.
[[nodiscard]] std::map<std::string, std::string> parse_safetensors_metadata(
    std::string_view text, std::string_view origin);

/// The header for these tensors, one after another, padded so that the data is aligned. `begin` and
/// `end` of the entries are worked out anew.
[[nodiscard]] std::string safetensors_header_text(const std::vector<SafetensorsEntry>& tensors,
                                                  Json metadata);

}  // namespace harmonics::inline in_models
