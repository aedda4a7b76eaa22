#include "csv_row.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include <harmonics/base/format.h>

#include "csv_number.h"

namespace harmonics::inline in_data {
namespace {

constexpr std::size_t kShownBytes = 40;
static_assert(kCsvPadding >= kNumberPadding);

bool is_space(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Where a line ends, "\r\n" counts as one end and so does the end of the file.
bool is_line_end(const char* at) { return *at == '\n' || (*at == '\r' && at[1] == '\n'); }

struct Field {
  std::string_view text;
  const char* after = nullptr;  // at the delimiter or the line end
};

// A field between quotes; `at` is past the opening one. Doubled quotes are joined in `joined`.
bool lex_quoted(const char* at, CsvRowText row, char delimiter, std::string& joined, Field& field) {
  joined.clear();
  while (true) {
    const auto* quote =
        at < row.end
            ? static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(row.end - at)))
            : nullptr;
    if (quote == nullptr) {
      joined = "a quote is opened and never closed";
      return false;
    }
    joined.append(at, quote);
    at = quote + 1;
    if (at >= row.end || *at != '"') break;
    joined += '"';
    ++at;
  }
  while (at < row.end && is_space(*at) && *at != delimiter) ++at;
  if (at < row.end && *at != delimiter && !is_line_end(at)) {
    joined = format("{} follows a closing quote; inside quotes a quote is written twice",
                    quote_for_message(std::string_view(at, 1)));
    return false;
  }
  field = {joined, at};
  return true;
}

// Any field. On failure `joined` holds what is wrong.
bool lex_field(const char* at, CsvRowText row, char delimiter, std::string& joined, Field& field) {
  while (at < row.end && is_space(*at) && *at != delimiter) ++at;
  if (at < row.end && *at == '"') return lex_quoted(at + 1, row, delimiter, joined, field);
  const char* const first = at;
  for (; at < row.end && *at != delimiter && !is_line_end(at); ++at) {
    if (*at == '"') {
      joined = format("{} holds a quote but does not begin with one",
                      quote_for_message(std::string_view(first, at + 1)));
      return false;
    }
  }
  field = {trimmed({first, at}), at};
  return true;
}

template <typename T>
bool read_value(std::string_view text, const CsvLayout& layout, T& value, std::string& what) {
  switch (parse_number(trimmed(text), value)) {
    case NumberFault::kNone:
      if constexpr (std::is_floating_point_v<T>) {
        if (value != value && !layout.allow_nan) {
          what = format(
              "{} is no number to compute with: mend it, leave the row out, or accept it "
              "with nan=allow",
              quote_for_message(text));
          return false;
        }
      }
      return true;
    case NumberFault::kOutOfRange:
      what = format("{} is out of range for {}", quote_for_message(text), dtype_name(layout.dtype));
      return false;
    case NumberFault::kNotANumber: break;
  }
  const char* const wanted = std::is_floating_point_v<T> ? "a number"
                             : std::is_same_v<T, bool>   ? "0, 1, true or false"
                                                         : "an integer";
  what = format("{} is not {}", quote_for_message(text), wanted);
  return false;
}

std::string ragged(std::size_t found, std::size_t expected, bool more) {
  return format("the row has {}{} columns where the first row has {}", more ? "more than " : "",
                found, expected);
}

// After the row's own line end only blank lines may stand before the next row.
bool ends_row(const char* at, CsvRowText row) {
  if (at > row.end) return false;
  for (; at < row.end; ++at) {
    if (!is_space(*at) && *at != '\r' && *at != '\n') return false;
  }
  return true;
}

// The complete way for one field, for what parse_plain leaves and for columns that nobody wants.
// Answers where the field ends; null, with `what` filled in, when it is malformed.
template <typename T>
const char* read_field(const char* at, CsvRowText row, const CsvLayout& layout, T* value,
                       std::string& what) {
  std::string joined;
  Field field;
  if (!lex_field(at, row, layout.delimiter, joined, field)) {
    what = std::move(joined);
    return nullptr;
  }
  if (value != nullptr && !read_value(field.text, layout, *value, what)) return nullptr;
  return field.after;
}

template <typename T, bool kScaled>
bool read_row(const CsvLayout& layout, CsvRowText row, std::byte* out, CsvFault& fault) {
  const std::size_t columns = layout.slots.size();
  const std::int32_t* const slots = layout.slots.data();
  const char delimiter = layout.delimiter;
  const char* after = row.begin - 1;
  for (std::size_t column = 0; column < columns; ++column) {
    const char* const at = after + 1;
    const std::int32_t slot = slots[column];
    std::conditional_t<kScaled, double, T> value{};
    after = slot < 0 ? nullptr : parse_plain(at, value);
    if (after == nullptr || (*after != delimiter && !is_line_end(after))) {
      auto read = value;  // its own, so that `value` need not live in memory
      after = read_field(at, row, layout, slot < 0 ? nullptr : &read, fault.what);
      if (after == nullptr) {
        fault.column = column;
        return false;
      }
      value = read;
    }
    if (slot >= 0) {
      if constexpr (kScaled) value *= layout.scale;
      const T element = static_cast<T>(value);
      std::memcpy(out + static_cast<std::size_t>(slot) * sizeof(T), &element, sizeof(T));
    }
    const bool more = *after == delimiter && after < row.end;
    if (more == (column + 1 == columns)) [[unlikely]] {
      fault = {column, ragged(column + 1, columns, more)};
      return false;
    }
  }
  if (!ends_row(after, row)) fault = {columns - 1, "the file changed while it was read"};
  return fault.what.empty();
}

template <typename T>
CsvRowReader reader_of(bool scaled) {
  if constexpr (std::is_floating_point_v<T>) {
    if (scaled) return read_row<T, true>;
  }
  return read_row<T, false>;
}

}  // namespace

CsvRowReader csv_row_reader(const CsvLayout& layout) {
  const bool scaled = layout.scale != 1.0;
  switch (layout.dtype) {
    case DType::kFloat32: return reader_of<float>(scaled);
    case DType::kFloat64: return reader_of<double>(scaled);
    case DType::kInt64: return reader_of<std::int64_t>(scaled);
    case DType::kInt32: return reader_of<std::int32_t>(scaled);
    case DType::kInt8: return reader_of<std::int8_t>(scaled);
    case DType::kUInt8: return reader_of<std::uint8_t>(scaled);
    case DType::kBool: return reader_of<bool>(scaled);
    case DType::kBFloat16:
    case DType::kFloat16: break;
  }
  return nullptr;
}

std::optional<std::vector<std::string>> split_csv_row(CsvRowText row, char delimiter,
                                                      std::size_t limit, CsvFault& fault) {
  std::vector<std::string> fields;
  std::string joined;
  const char* at = row.begin;
  while (true) {
    fault.column = fields.size();
    if (fields.size() == limit) {
      fault.what = format("the row has more than {} columns", limit);
      return std::nullopt;
    }
    Field field;
    if (!lex_field(at, row, delimiter, joined, field)) {
      fault.what = joined;
      return std::nullopt;
    }
    fields.emplace_back(trimmed(field.text));
    if (field.after >= row.end || *field.after != delimiter) return fields;
    at = field.after + 1;
  }
}

bool is_csv_value(std::string_view field, DType dtype) {
  bool flag = false;
  double number = 0;
  if (dtype == DType::kBool && parse_number(field, flag) == NumberFault::kNone) return true;
  return parse_number(field, number) != NumberFault::kNotANumber;
}

std::string quote_for_message(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, kShownBytes)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return shown + (text.size() > kShownBytes ? "…'" : "'");
}

}  // namespace harmonics::inline in_data
