#include "csv_columns.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_data {
namespace {

struct Range {
  std::size_t first;
  std::size_t last;
};

std::vector<std::string_view> items_of(std::string_view selection) {
  std::vector<std::string_view> items;
  while (true) {
    const std::size_t comma = selection.find(',');
    std::string_view item = selection.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    items.push_back(item);
    if (comma == std::string_view::npos) return items;
    selection.remove_prefix(comma + 1);
  }
}

// "7" or "0-63"; anything else is a name.
std::optional<Range> range_of(std::string_view item) {
  const std::size_t dash = item.find('-');
  const auto first = number_from<std::size_t>(item.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : number_from<std::size_t>(item.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return Range{*first, *last};
}

std::string list_of(std::span<const std::string> names) {
  constexpr std::size_t kShown = 20;
  const std::string list = joined(names.first(std::min(names.size(), kShown)));
  return names.size() > kShown ? list + ", …" : list;
}

Range resolve(std::string_view item, std::span<const std::string> names, std::size_t column_count) {
  if (const auto range = range_of(item)) {
    if (range->first > range->last) {
      fail(ErrorCode::kInvalidArgument, "the columns '{}' run backwards; write '{}-{}'", item,
           range->last, range->first);
    }
    if (range->last >= column_count) {
      fail(ErrorCode::kNotFound, "there is no column {}: the file has columns 0 to {}", range->last,
           column_count - 1);
    }
    return *range;
  }
  const auto found = std::ranges::find(names, item);
  if (found == names.end()) {
    fail(ErrorCode::kNotFound, "there is no column '{}': the header has {}", item, list_of(names));
  }
  if (std::find(found + 1, names.end(), item) != names.end()) {
    fail(ErrorCode::kInvalidArgument, "several columns are named '{}': select by number", item);
  }
  const auto index = static_cast<std::size_t>(found - names.begin());
  return {index, index};
}

}  // namespace

bool selects_by_name(std::string_view selection) {
  if (selection.empty()) return false;
  const auto items = items_of(selection);
  return std::ranges::any_of(items, [](std::string_view item) { return !range_of(item); });
}

std::vector<std::size_t> select_columns(std::string_view selection,
                                        std::span<const std::string> names,
                                        std::size_t column_count) {
  std::vector<std::size_t> columns;
  if (selection.empty()) {
    columns.resize(column_count);
    std::iota(columns.begin(), columns.end(), std::size_t{0});
    return columns;
  }
  std::vector<bool> taken(column_count);
  for (const std::string_view item : items_of(selection)) {
    const Range range = resolve(item, names, column_count);
    for (std::size_t column = range.first; column <= range.last; ++column) {
      if (taken[column]) {
        fail(ErrorCode::kInvalidArgument, "column {} is selected twice in '{}'", column, selection);
      }
      taken[column] = true;
      columns.push_back(column);
    }
  }
  return columns;
}

}  // namespace harmonics::inline in_data
