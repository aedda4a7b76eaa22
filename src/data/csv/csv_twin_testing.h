// The CSV reader's dumb twin: character by character, a string per field, strtod. It shares no code
// with the reader and says what the reader ought to have read.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_data {

using TwinRow = std::vector<std::string>;

/// The rows of a file, without blank ones; nothing when a quote is out of place.
class CsvTwin {
 public:
  CsvTwin(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  [[nodiscard]] std::optional<std::vector<TwinRow>> rows() {
    std::vector<TwinRow> rows;
    while (at_ < text_.size()) {
      if (skip_blank_line()) continue;
      TwinRow row;
      do {
        if (!read_field(row.emplace_back())) return std::nullopt;
      } while (take(delimiter_));
      if (!at_line_end()) return std::nullopt;
      take('\r');
      take('\n');
      rows.push_back(row);
    }
    return rows;
  }

  /// The value of a field; nothing when it is not a number or too large for a T.
  template <typename T>
  [[nodiscard]] static std::optional<T> value(std::string text) {
    trim(text);
    if (text.starts_with('+'))
      text.erase(0, 1);
    else if (text.starts_with('-'))
      return negated(value_without_sign<T>(text.substr(1)));
    return value_without_sign<T>(text);
  }

 private:
  static void trim(std::string& text) {
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.pop_back();
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.erase(0, 1);
  }
  template <typename T>
  static std::optional<T> negated(std::optional<T> value) {
    if (value) value = -*value;
    return value;
  }
  template <typename T>
  static std::optional<T> value_without_sign(const std::string& text) {
    std::string lower;
    for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    const bool special = lower == "nan" || lower == "inf";
    if (!special && lower.find_first_not_of("0123456789.e+-") != std::string::npos)
      return std::nullopt;
    if (lower.empty() || lower[0] == '+' || lower[0] == '-') return std::nullopt;
    char* end = nullptr;
    const T value = sizeof(T) == 4 ? static_cast<T>(std::strtof(lower.c_str(), &end))
                                   : static_cast<T>(std::strtod(lower.c_str(), &end));
    if (end != lower.c_str() + lower.size()) return std::nullopt;
    const bool infinite = value > 0 && value == value / 2;
    if (infinite && !special) return std::nullopt;
    return value;
  }

  [[nodiscard]] bool at_line_end() const {
    if (at_ == text_.size() || text_[at_] == '\n') return true;
    return text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n');
  }
  bool take(char wanted) {
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool skip_blank_line() {
    std::size_t at = at_;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\r')) ++at;
    if (at < text_.size() && text_[at] != '\n') return false;
    at_ = at == text_.size() ? at : at + 1;
    return true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] != delimiter_ &&
           (text_[at_] == ' ' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool read_field(std::string& field) {
    skip_spaces();
    if (take('"')) {
      while (true) {
        if (at_ == text_.size()) return false;
        const char c = text_[at_++];
        if (c == '"' && !take('"')) break;
        field += c;
      }
      skip_spaces();
      return at_line_end() || text_[at_] == delimiter_;
    }
    while (!at_line_end() && text_[at_] != delimiter_) {
      if (text_[at_] == '"') return false;
      field += text_[at_++];
    }
    return true;
  }

  std::string_view text_;
  char delimiter_;
  std::size_t at_ = 0;
};

}  // namespace harmonics::inline in_data
