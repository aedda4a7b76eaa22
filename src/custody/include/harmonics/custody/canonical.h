// Reading records that have exactly one encoding.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/digest.h>
#include <harmonics/custody/keys.h>

namespace harmonics::inline in_custody {

/// ByteReader that refuses what a canonical writer never writes. Does not own the bytes.
class CanonicalReader {
 public:
  CanonicalReader(ByteSpan bytes, std::string_view what) : in_(bytes, std::string(what)) {}

  template <typename T>
  T number() {
    return in_.number<T>();
  }
  std::uint8_t choice(std::uint8_t least, std::uint8_t most, std::string_view what) {
    const auto value = in_.number<std::uint8_t>();
    if (value < least || value > most) in_.broken(format("{} is not {}", int{value}, what));
    return value;
  }
  std::int64_t extent() {
    const auto value = in_.number<std::int64_t>();
    if (value < 0) in_.broken("a negative extent");
    return value;
  }
  std::string name() {
    std::string text = in_.text(kMaxCustodyName);
    if (text.empty()) in_.broken("an empty name");
    return text;
  }
  ByteSpan raw(std::size_t count) { return in_.take(count); }
  Digest digest() {
    Digest digest;
    std::memcpy(digest.data(), in_.take(digest.size()).data(), digest.size());
    return digest;
  }
  template <typename Item, typename Read>
  std::vector<Item> list(std::size_t limit, std::size_t item_bytes, Read read) {
    std::vector<Item> items(in_.count(limit, item_bytes));
    for (Item& item : items) item = read();
    return items;
  }
  template <typename Item, typename Read>
  std::vector<Item> sorted_list(std::size_t limit, std::size_t item_bytes, Read read) {
    std::vector<Item> items = list<Item>(limit, item_bytes, read);
    for (std::size_t i = 1; i < items.size(); ++i) {
      if (!(items[i - 1] < items[i])) in_.broken("a list is not in order");
    }
    return items;
  }
  [[nodiscard]] std::size_t left() const { return in_.left(); }
  void end() {
    if (in_.left() != 0) in_.broken("bytes follow the end");
  }
  [[noreturn]] void broken(std::string_view what) const { in_.broken(what); }

 private:
  ByteReader in_;
};

/// Decodes all of `bytes`; whatever is wrong is a CustodyError (kMalformed).
template <typename Read>
auto decode_canonical(ByteSpan bytes, std::string_view what, Read read) {
  CanonicalReader in(bytes, what);
  try {
    auto value = read(in);
    in.end();
    return value;
  } catch (const CustodyError&) {
    throw;
  } catch (const Error& error) {
    fail_custody(Breach::kMalformed, "{}", error.what());
  }
}

}  // namespace harmonics::inline in_custody
