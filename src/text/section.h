// One object of tokenizer.json with its place in the file: what is read says where it stands when
// it is wrong, and a member that nobody reads is refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_text {

/// A view: the Json must outlive it. Every member throws an Error that names the place.
class Section {
 public:
  /// Anything but an object is an Error.
  Section(const Json& json, std::string place);

  [[nodiscard]] const std::string& place() const { return place_; }
  /// Any member besides "type" and these is an Error that names it.
  void only(std::initializer_list<std::string_view> known) const;
  /// True for a member that is there and not null.
  [[nodiscard]] bool has(std::string_view key) const;

  [[nodiscard]] const Json& value(std::string_view key) const;
  [[nodiscard]] const std::string& text(std::string_view key) const;
  /// Empty when the member is absent or null.
  [[nodiscard]] std::string text_or_empty(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  /// A whole number of 0..`most`.
  std::int64_t count(std::string_view key, std::int64_t most) const;
  [[nodiscard]] Section at(std::string_view key) const;
  /// The objects of a list.
  [[nodiscard]] std::vector<Section> items(std::string_view key) const;
  /// The place of a text among `names`.
  std::size_t choice(std::string_view key, std::initializer_list<std::string_view> names) const;

  [[noreturn]] void refuse(std::string_view what) const;
  /// The type is none of `known`.
  [[noreturn]] void refuse_type(std::initializer_list<std::string_view> known) const;

 private:
  const Json* json_;
  std::string place_;
};

}  // namespace harmonics::inline in_text
