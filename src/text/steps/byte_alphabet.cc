#include "byte_alphabet.h"

#include "utf8.h"

namespace harmonics::inline in_text {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;

// Bytes that are visible characters of Latin-1 stand for themselves.
constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> of_byte;
  std::array<int, 0x200> byte_of{};  // by code point; -1 for none

  Alphabet() {
    byte_of.fill(-1);
    char32_t substitute = kFirstSubstitute;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t point = stands_for_itself(byte) ? byte : substitute++;
      append_point(of_byte[byte], point);
      byte_of[point] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

const std::array<std::string, 256>& byte_characters() { return alphabet().of_byte; }

std::optional<std::string> bytes_spelled(std::string_view spelled) {
  const auto& byte_of = alphabet().byte_of;
  std::string bytes;
  for (std::size_t at = 0; at < spelled.size();) {
    const char32_t point = next_point(spelled, at);
    if (point >= byte_of.size() || byte_of[point] < 0) return std::nullopt;
    bytes += static_cast<char>(byte_of[point]);
  }
  return bytes;
}

}  // namespace harmonics::inline in_text
