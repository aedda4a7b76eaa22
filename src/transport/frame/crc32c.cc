#include <harmonics/transport/crc32c.h>

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace harmonics::inline in_transport {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bits reversed

using Table = std::array<std::uint32_t, 256>;

// kByteTables[k][b]: what byte b does to the CRC when k more bytes follow it.
constexpr std::array<Table, 8> make_byte_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kByteTables = make_byte_tables();

std::uint64_t load(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

std::uint32_t byte_step(std::uint32_t crc, std::byte value) {
  return (crc >> 8) ^ kByteTables[0][(crc ^ static_cast<std::uint32_t>(value)) & 0xff];
}

}  // namespace

std::uint32_t crc32c_portable(ByteSpan bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    const std::uint64_t word = load(at) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kByteTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; left > 0; --left, ++at) crc = byte_step(crc, *at);
  return ~crc;
}

#if defined(__x86_64__)

namespace {

// The crc32 instruction takes three cycles but a new one can start every cycle: three lanes of
// kLane bytes run side by side and are joined at the end.
constexpr std::size_t kLane = 2048;

// Appending kLane zero bytes is linear in the CRC, so it is the sum of what each of its four bytes
// becomes.
using ShiftTables = std::array<Table, 4>;

std::uint32_t append_zeros(std::uint32_t crc, std::size_t count) {
  for (; count > 0; --count) crc = byte_step(crc, std::byte{0});
  return crc;
}

ShiftTables make_shift_tables() {
  std::array<std::uint32_t, 32> of_bit{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    of_bit[bit] = append_zeros(std::uint32_t{1} << bit, kLane);
  }
  ShiftTables tables{};
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      for (std::size_t bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) tables[k][byte] ^= of_bit[8 * k + bit];
      }
    }
  }
  return tables;
}

std::uint32_t shift(const ShiftTables& tables, std::uint32_t crc) {
  return tables[0][crc & 0xff] ^ tables[1][crc >> 8 & 0xff] ^ tables[2][crc >> 16 & 0xff] ^
         tables[3][crc >> 24];
}

}  // namespace

__attribute__((target("sse4.2"))) std::uint32_t crc32c_hardware(ByteSpan bytes,
                                                                std::uint32_t before) {
  static const ShiftTables kShift = make_shift_tables();
  std::uint64_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 3 * kLane; left -= 3 * kLane, at += 3 * kLane) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      crc = _mm_crc32_u64(crc, load(at + i));
      second = _mm_crc32_u64(second, load(at + kLane + i));
      third = _mm_crc32_u64(third, load(at + 2 * kLane + i));
    }
    const std::uint32_t joined =
        shift(kShift, static_cast<std::uint32_t>(crc)) ^ static_cast<std::uint32_t>(second);
    crc = shift(kShift, joined) ^ static_cast<std::uint32_t>(third);
  }
  for (; left >= 8; left -= 8, at += 8) crc = _mm_crc32_u64(crc, load(at));
  auto narrow = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) narrow = _mm_crc32_u8(narrow, static_cast<std::uint8_t>(*at));
  return ~narrow;
}

bool crc32c_has_hardware() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

#else

std::uint32_t crc32c_hardware(ByteSpan bytes, std::uint32_t before) {
  return crc32c_portable(bytes, before);
}
bool crc32c_has_hardware() { return false; }

#endif

std::uint32_t crc32c(ByteSpan bytes, std::uint32_t before) {
  return crc32c_has_hardware() ? crc32c_hardware(bytes, before) : crc32c_portable(bytes, before);
}

}  // namespace harmonics::inline in_transport
