// Records as bytes, with their fields said once: a function of an archive and a record names the
// fields in their order, and serves writing and reading alike.
//
//   constexpr auto kPointFields = [](auto& archive, auto& point) {
//     archive.number(point.x);
//     archive.text(point.name, kMaxName);
//     archive.check(point.x >= 0, "a point left of the edge");
//   };
//   Bytes bytes = write_fields(point, kPointFields);
//   auto again = read_fields<Point>(bytes, "point", kPointFields);
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <harmonics/base/bytes.h>

namespace harmonics::inline in_base {

/// The archive that writes. What is checked was checked by whoever made the record.
class FieldWriter {
 public:
  static constexpr bool kReads = false;

  template <Arithmetic T>
  void number(T value) {
    out_.number(value);
  }
  /// One byte.
  void flag(bool value) { out_.number(static_cast<std::uint8_t>(value ? 1 : 0)); }
  /// As a number of type `As`, up to `last`.
  template <typename As, typename Kind>
  void kind(Kind value, Kind) {
    out_.number(static_cast<As>(value));
  }
  void text(std::string_view value, std::size_t) { out_.text(value); }
  template <std::size_t kSize>
  void raw(const std::array<std::byte, kSize>& value) {
    out_.raw(value);
  }
  /// A u32 count, then what `each` writes of every item.
  template <typename Items, typename Each>
  void list(const Items& items, std::size_t, std::size_t, Each&& each) {
    out_.number(static_cast<std::uint32_t>(items.size()));
    for (const auto& item : items) each(item);
  }
  void check(bool, std::string_view) const {}

  [[nodiscard]] Bytes take() { return out_.take(); }

 private:
  ByteWriter out_;
};

/// The archive that fills a record from untrusted bytes; what does not fit is an `Error`
/// (kDataLoss) that names the format and the offset.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  FieldReader(ByteSpan bytes, std::string format_name) : in_(bytes, std::move(format_name)) {}

  template <Arithmetic T>
  void number(T& value) {
    value = in_.number<T>();
  }
  void flag(bool& value) {
    const auto byte = in_.number<std::uint8_t>();
    check(byte <= 1, "a flag that is neither 0 nor 1");
    value = byte == 1;
  }
  template <typename As, typename Kind>
  void kind(Kind& value, Kind last) {
    const As number = in_.number<As>();
    check(number <= static_cast<As>(last), "a number that stands for nothing");
    value = static_cast<Kind>(number);
  }
  void text(std::string& value, std::size_t limit) { value = in_.text(limit); }
  template <std::size_t kSize>
  void raw(std::array<std::byte, kSize>& value) {
    std::ranges::copy(in_.take(kSize), value.begin());
  }
  /// At most `limit` items of at least `item_bytes` each.
  template <typename Items, typename Each>
  void list(Items& items, std::size_t limit, std::size_t item_bytes, Each&& each) {
    items.resize(in_.count(limit, item_bytes));
    for (auto& item : items) each(item);
  }
  void check(bool holds, std::string_view what) const {
    if (!holds) in_.broken(what);
  }
  void expect_end() const { check(in_.left() == 0, "bytes follow the end"); }

 private:
  ByteReader in_;
};

template <typename Record, typename Fields>
[[nodiscard]] Bytes write_fields(const Record& record, Fields&& fields) {
  FieldWriter archive;
  fields(archive, record);
  return archive.take();
}

/// All of `bytes` is one record.
template <typename Record, typename Fields>
[[nodiscard]] Record read_fields(ByteSpan bytes, std::string format_name, Fields&& fields) {
  FieldReader archive(bytes, std::move(format_name));
  Record record{};
  fields(archive, record);
  archive.expect_end();
  return record;
}

}  // namespace harmonics::inline in_base
