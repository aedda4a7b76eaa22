// The wire format of protocol buffers, read where it lies: no schema, no copy, nothing allocated
// (private to models).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_models {

/// One field of a message. A number (varint, or 4 or 8 fixed bytes) stands in `value`; text, bytes,
/// packed lists and messages stand in `bytes`, which looks into the reader's bytes.
struct WireField {
  std::uint32_t number = 0;
  bool is_bytes = false;
  std::uint64_t value = 0;
  ByteSpan bytes;

  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::int64_t integer() const { return static_cast<std::int64_t>(value); }
  [[nodiscard]] float real() const;
};

/// Walks over the fields of one message. Bytes that are no message are an Error (kDataLoss) that
/// says `what` was being read.
class WireReader {
 public:
  WireReader(ByteSpan bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  /// The next field, or false at the end.
  [[nodiscard]] bool next(WireField& field);

 private:
  [[nodiscard]] std::uint64_t varint();
  [[nodiscard]] ByteSpan take(std::uint64_t size);
  [[noreturn]] void broken(std::string_view how) const;

  ByteSpan bytes_;
  std::string_view what_;
};

/// Adds the integers of a field that may be repeated, packed or not. More than `limit` in all is an
/// Error.
void add_integers(const WireField& field, std::vector<std::int64_t>& to, std::size_t limit,
                  std::string_view what);

}  // namespace harmonics::inline in_models
