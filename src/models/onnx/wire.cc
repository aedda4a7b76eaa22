#include "wire.h"

#include <bit>
#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_models {

static_assert(std::endian::native == std::endian::little, "fixed fields are little-endian");

float WireField::real() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }

void WireReader::broken(std::string_view how) const {
  fail(ErrorCode::kDataLoss, "{}: {}; the file is cut short or damaged", what_, how);
}

std::uint64_t WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (bytes_.empty()) broken("a number has no end");
    const auto byte = static_cast<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  broken("a number is too long");
}

ByteSpan WireReader::take(std::uint64_t size) {
  if (size > bytes_.size()) broken("a field is longer than what follows");
  const ByteSpan taken = bytes_.first(static_cast<std::size_t>(size));
  bytes_ = bytes_.subspan(taken.size());
  return taken;
}

bool WireReader::next(WireField& field) {
  if (bytes_.empty()) return false;
  const std::uint64_t key = varint();
  field = {};
  if (key >> 3 == 0 || key >> 32 != 0) broken("a field has no number");
  field.number = static_cast<std::uint32_t>(key >> 3);
  switch (key & 7) {
    case 0: field.value = varint(); return true;
    case 1: std::memcpy(&field.value, take(8).data(), 8); return true;
    case 2:
      field.is_bytes = true;
      field.bytes = take(varint());
      return true;
    case 5: std::memcpy(&field.value, take(4).data(), 4); return true;
    default: broken("a field is of a kind that does not exist");
  }
}

void add_integers(const WireField& field, std::vector<std::int64_t>& to, std::size_t limit,
                  std::string_view what) {
  const auto add = [&](std::uint64_t value) {
    if (to.size() >= limit)
      fail(ErrorCode::kResourceExhausted, "{}: more than {} numbers", what, limit);
    to.push_back(static_cast<std::int64_t>(value));
  };
  if (!field.is_bytes) return add(field.value);
  // Packed: varints without keys, so each byte that does not go on ends a number.
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const std::byte each : field.bytes) {
    const auto byte = static_cast<std::uint8_t>(each);
    if (shift >= 64) fail(ErrorCode::kDataLoss, "{}: a number is too long", what);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    shift += 7;
    if (byte >= 0x80) continue;
    add(value);
    value = 0;
    shift = 0;
  }
  if (shift != 0) fail(ErrorCode::kDataLoss, "{}: a number has no end", what);
}

}  // namespace harmonics::inline in_models
