// A small JSON value: for checkpoint headers, metrics lines and the output of commands.
//
// Objects keep the order in which keys were added, so that output is stable. Numbers are kept as
// int64 when they were written without fraction or exponent and fit, as double otherwise. Parsing
// is strict (RFC 8259), bounded in depth and refuses duplicate keys; errors carry the byte offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace harmonics::inline in_base {

/// How deeply arrays and objects may be nested in a text that is parsed.
inline constexpr int kMaxJsonDepth = 64;

/// A value that owns all below it. Threads: like an int.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(std::int64_t value) : value_(value) {}
  /// Kept as the int64 of the same bits: from 2^63 on it is written as a negative number.
  Json(std::uint64_t value) : value_(static_cast<std::int64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  static Json object() { return Json(Object{}); }
  static Json array() { return Json(Array{}); }

  /// Parses one JSON text; `name` says in errors what was parsed.
  [[nodiscard]] static Json parse(std::string_view text, std::string_view name);

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(value_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(value_); }
  [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(value_); }
  [[nodiscard]] bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }

  // Typed access; another type is an Error (kInvalidArgument) that says what there is.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_integer() const;
  [[nodiscard]] double as_number() const;
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const Array& as_array() const;
  [[nodiscard]] const Object& as_object() const;

  /// Member of an object, or null when there is none.
  [[nodiscard]] const Json* find(std::string_view key) const;
  /// Member of an object; a missing one is an Error that names the key.
  [[nodiscard]] const Json& at(std::string_view key) const;
  /// Adds or replaces a member; null becomes an object first, another type is an Error.
  Json& set(std::string_view key, Json value);
  /// Appends to an array; null becomes an array first, another type is an Error.
  Json& push(Json value);

  /// One line, or with `indent` spaces per level. Non-finite numbers are written as null.
  [[nodiscard]] std::string dump(int indent = 0) const;

 private:
  void write(std::string& out, int indent, int level) const;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

/// `text` as a JSON string with its quotes.
[[nodiscard]] std::string json_quote(std::string_view text);

}  // namespace harmonics::inline in_base
