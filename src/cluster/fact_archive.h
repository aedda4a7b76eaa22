// What facts are written with and read by (private to cluster). The bytes of a record are said
// once, by `fields(archive, record)` in fact_codec.cc: FactOutput walks its fields and writes them,
// FactInput walks the same lines and fills them.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <harmonics/base/bytes.h>
#include <harmonics/base/ids.h>
#include <harmonics/cluster/task.h>

namespace harmonics::inline in_cluster {

/// Writes the fields of a record, in the order in which it is shown them.
class FactOutput {
 public:
  static constexpr bool kReads = false;
  template <typename T>
  using Of = const T;

  explicit FactOutput(ByteWriter& out) : out_(out) {}

  void word(std::uint64_t value, std::uint64_t = 0) {
    while (value >= 0x80) {
      out_.number(static_cast<std::uint8_t>(value | 0x80));
      value >>= 7;
    }
    out_.number(static_cast<std::uint8_t>(value));
  }
  template <std::unsigned_integral Number>
  void number(Number value) {
    word(value);
  }
  template <typename Tag, typename Number>
  void number(Id<Tag, Number> id) {
    word(id.value);
  }
  /// Small negative numbers stay short.
  void integer(std::int64_t value) {
    word(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }
  void time(Time value) { integer(value.count()); }
  void flag(bool value) { word(value ? 1 : 0); }
  template <typename Kind>
  void kind(Kind value, Kind) {
    word(static_cast<std::uint64_t>(value));
  }
  void text(std::string_view value, std::size_t = 0) {
    word(value.size());
    out_.raw(bytes_of(value));
  }
  template <typename Items, typename Each>
  void list(const Items& items, std::size_t, Each&& each) {
    word(items.size());
    for (const auto& item : items) each(item);
  }

 private:
  ByteWriter& out_;
};

/// Fills them from untrusted bytes, in the same order; what is malformed or above its limit is an
/// Error.
class FactInput {
 public:
  static constexpr bool kReads = true;
  template <typename T>
  using Of = T;

  FactInput(ByteSpan bytes, const std::string& where) : in_(bytes, where) {}

  [[nodiscard]] bool done() const { return in_.left() == 0; }
  [[nodiscard]] std::uint8_t tag() { return in_.number<std::uint8_t>(); }
  [[noreturn]] void broken(std::string_view what) const { in_.broken(what); }

  void word(std::uint64_t& value, std::uint64_t limit = ~std::uint64_t{0}) {
    value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = in_.number<std::uint8_t>();
      if (shift > 63 || (shift == 63 && byte > 1)) broken("a number of more than 64 bits");
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    if (value > limit) broken("a number above its limit");
  }
  template <std::unsigned_integral Number>
  void number(Number& value) {
    value = static_cast<Number>(next(std::numeric_limits<Number>::max()));
  }
  template <typename Tag, typename Number>
  void number(Id<Tag, Number>& id) {
    number(id.value);
  }
  template <std::signed_integral Number>
  void integer(Number& out) {
    const std::uint64_t bits = next();
    const auto value = static_cast<std::int64_t>(bits >> 1 ^ (~(bits & 1) + 1));
    if (!std::in_range<Number>(value)) broken("a number above its limit");
    out = static_cast<Number>(value);
  }
  void time(Time& value) {
    std::int64_t count = 0;
    integer(count);
    value = Time{count};
  }
  void flag(bool& value) { value = next(1) == 1; }
  template <typename Kind>
  void kind(Kind& value, Kind last) {
    value = static_cast<Kind>(next(static_cast<std::uint64_t>(last)));
  }
  void text(std::string& value, std::size_t limit = kMaxTaskTextBytes) {
    const ByteSpan bytes = in_.take(next(limit));
    value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <typename Items, typename Each>
  void list(Items& items, std::size_t limit, Each&& each) {
    const std::uint64_t count = next(limit);
    if (count > in_.left()) broken("a count that cannot fit");
    items.resize(count);
    for (auto& item : items) each(item);
  }

 private:
  std::uint64_t next(std::uint64_t limit = ~std::uint64_t{0}) {
    std::uint64_t value = 0;
    word(value, limit);
    return value;
  }

  ByteReader in_;
};

/// A T that is written, or one that is filled.
template <typename Archive, typename T>
using Of = typename Archive::template Of<T>;

}  // namespace harmonics::inline in_cluster
