// Messages of protocol buffers, written field by field (private to models).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace harmonics::inline in_models {

/// One message. A message inside another is its text, given as bytes.
class ProtoWriter {
 public:
  ProtoWriter& number(std::uint32_t field, std::int64_t value) {
    varint(field << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoWriter& real(std::uint32_t field, float value) {
    varint((field << 3) | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) text_ += static_cast<char>(bits >> shift);
    return *this;
  }
  ProtoWriter& bytes(std::uint32_t field, std::string_view value) {
    head(field, value.size());
    text_ += value;
    return *this;
  }
  /// What stands before `size` bytes that are written elsewhere.
  ProtoWriter& head(std::uint32_t field, std::uint64_t size) {
    varint((field << 3) | 2);
    varint(size);
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>((value & 0x7f) | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

}  // namespace harmonics::inline in_models
