// Little-endian byte writing and bounded reading: what every binary format of the house is made of.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace harmonics::inline in_base {

static_assert(std::endian::native == std::endian::little,
              "the binary formats are little-endian and are written without swapping");

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

[[nodiscard]] inline ByteSpan bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
/// The same bytes as text.
[[nodiscard]] inline std::string text_of(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What ByteWriter and ByteReader take as one number.
template <typename T>
concept Arithmetic = std::is_arithmetic_v<T>;

/// Appends values to a growing byte vector.
class ByteWriter {
 public:
  template <Arithmetic T>
  void number(T value) {
    if constexpr (sizeof(T) == 1) {
      out_.push_back(std::bit_cast<std::byte>(value));
    } else {
      raw(std::as_bytes(std::span(&value, 1)));
    }
  }
  /// Length as u32, then the bytes.
  void text(std::string_view value);
  void raw(ByteSpan value);

  [[nodiscard]] const Bytes& bytes() const { return out_; }
  [[nodiscard]] Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

/// Reads values from untrusted bytes. Every read is bounded; a short input throws an `Error`
/// (kDataLoss) that names the format and the offset. Does not own the bytes.
class ByteReader {
 public:
  ByteReader(ByteSpan bytes, std::string format_name)
      : bytes_(bytes), format_name_(std::move(format_name)) {}

  template <Arithmetic T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// A text written by ByteWriter::text; longer than `limit` is an error.
  std::string text(std::size_t limit);
  /// A u32 count of items that take at least `item_bytes` each: one that cannot fit in what is
  /// left, or is above `limit`, is an error before anything is allocated.
  std::uint32_t count(std::size_t limit, std::size_t item_bytes);
  ByteSpan take(std::size_t count) {
    if (count > left()) too_short(count);
    const ByteSpan taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - offset_; }
  /// Throws an `Error` (kDataLoss) with format name, offset and `what`.
  [[noreturn]] void broken(std::string_view what) const;

 private:
  [[noreturn]] void too_short(std::size_t count) const;

  ByteSpan bytes_;
  std::string format_name_;
  std::size_t offset_ = 0;
};

/// Lower-case hexadecimal.
[[nodiscard]] std::string to_hex(ByteSpan bytes);

}  // namespace harmonics::inline in_base
