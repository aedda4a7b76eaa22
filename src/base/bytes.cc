#include <harmonics/base/bytes.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {

void ByteWriter::text(std::string_view value) {
  number(static_cast<std::uint32_t>(value.size()));
  raw(bytes_of(value));
}

void ByteWriter::raw(ByteSpan value) { out_.insert(out_.end(), value.begin(), value.end()); }

std::string ByteReader::text(std::size_t limit) {
  const std::uint32_t size = count(limit, 1);
  const ByteSpan raw = take(size);
  return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

std::uint32_t ByteReader::count(std::size_t limit, std::size_t item_bytes) {
  const auto value = number<std::uint32_t>();
  if (value > limit) broken(format("a count of {} is above the limit of {}", value, limit));
  if (item_bytes != 0 && value > left() / item_bytes) {
    broken(format("a count of {} cannot fit in the {} bytes that are left", value, left()));
  }
  return value;
}

void ByteReader::too_short(std::size_t count) const {
  broken(format("{} bytes are needed and {} are left", count, left()));
}

void ByteReader::broken(std::string_view what) const {
  fail(ErrorCode::kDataLoss, "broken {} at byte {}: {}", format_name_, offset_, what);
}

std::string to_hex(ByteSpan bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  return out;
}

}  // namespace harmonics::inline in_base
