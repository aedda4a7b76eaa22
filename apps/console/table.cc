#include <harmonics/console/table.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <harmonics/base/escaped.h>
#include <harmonics/base/format.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_console {
namespace {

// Characters on the screen, not bytes: continuation bytes of UTF-8 do not count.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (byte & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::string space(width - width_of(text), ' ');
  return align == Align::kLeft ? text + space : space + text;
}

}  // namespace

std::string Table::text(bool colour) const {
  std::vector<std::vector<std::string>> cells(1);
  for (const Column& column : columns) cells[0].push_back(escaped(column.title));
  for (const auto& row : rows) {
    cells.emplace_back();
    for (const std::string& cell : row) cells.back().push_back(escaped(cell));
  }
  std::vector<std::size_t> widths(columns.size());
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row.at(i)));
    }
  }
  const auto line = [&](const std::vector<std::string>& row) {
    std::string out;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      out += (i == 0 ? "" : "  ") + padded(row[i], widths[i], columns[i].align);
    }
    while (out.ends_with(' ')) out.pop_back();
    return out;
  };
  std::string out = bold(line(cells[0]), colour) + "\n";
  for (std::size_t i = 1; i < cells.size(); ++i) out += line(cells[i]) + "\n";
  return out;
}

std::string progress_bar(double share, int width, bool colour) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  const std::string done(static_cast<std::size_t>(full), '#');
  const std::string rest(static_cast<std::size_t>(width - full), '.');
  return colour ? format("[\x1b[32m{}\x1b[0m{}]", done, rest) : format("[{}{}]", done, rest);
}

std::string with_thousands(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string in_short(double number) {
  if (std::abs(number) < 999.5) return format("{:.0f}", number);
  return as_rate(number);
}

std::string as_rate(double per_second) {
  constexpr std::array<const char*, 6> units = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  while (std::abs(per_second) >= 999.5 && unit + 1 < units.size()) {
    per_second /= 1000;
    ++unit;
  }
  return format("{:.3g}{}", per_second, units[unit]);
}

std::string as_percent(double share) { return format("{:.2f} %", share * 100); }

std::string as_loss(double loss) { return std::isnan(loss) ? "nan" : format("{:.4f}", loss); }

std::string as_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, std::round(seconds)));
  const std::int64_t hours = whole / 3600;
  if (hours > 0) return format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
  return format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace harmonics::inline in_console
