#include "csv_rows.h"

#include <algorithm>

#include <harmonics/base/escaped.h>
#include <harmonics/base/listed.h>
#include <harmonics/replay/job_trace.h>

namespace harmonics::inline in_replay {

CsvRows::CsvRows(std::string_view text, std::string_view where) : rest_(text), where_(where) {
  std::string_view line;
  if (!take_line(line) || line.empty()) {
    fail(ErrorCode::kInvalidArgument, "{}: empty; the first line must name the columns", where_);
  }
  split(line, names_);
}

bool CsvRows::take_line(std::string_view& line) {
  if (rest_.empty()) return false;
  ++line_;
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > kMaxTraceLineBytes) {
    fail(ErrorCode::kInvalidArgument, "{}: {} bytes, at most {} are read", here(), line.size(),
         kMaxTraceLineBytes);
  }
  return true;
}

void CsvRows::split(std::string_view line, std::vector<std::string_view>& fields) const {
  fields.clear();
  while (true) {
    if (fields.size() == kMaxTraceColumns) {
      fail(ErrorCode::kInvalidArgument, "{}: more than {} columns", here(), kMaxTraceColumns);
    }
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == line.npos) return;
    line.remove_prefix(comma + 1);
  }
}

bool CsvRows::next() {
  std::string_view line;
  do {
    if (!take_line(line)) return false;
  } while (line.empty());
  split(line, fields_);
  if (fields_.size() != names_.size()) {
    fail(ErrorCode::kInvalidArgument, "{}: {} fields where the first line names {} columns", here(),
         fields_.size(), names_.size());
  }
  return true;
}

bool CsvRows::has(std::string_view column) const {
  return std::ranges::find(names_, column) != names_.end();
}

std::size_t CsvRows::column(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) {
    fail(ErrorCode::kInvalidArgument, "{}: no column '{}'; there are {}", where_, name,
         escaped(listed(names_)));
  }
  return static_cast<std::size_t>(found - names_.begin());
}

double CsvRows::number(std::size_t column, double low, double high) const {
  const auto value = number_from<double>(fields_[column]);
  if (!value || !(*value >= low && *value <= high)) {
    wrong(column, format("a number from {} to {}", low, high));
  }
  return *value;
}

std::uint64_t CsvRows::whole(std::size_t column, std::uint64_t high) const {
  const auto value = number_from<std::uint64_t>(fields_[column]);
  if (!value || *value > high) wrong(column, format("a whole number from 0 to {}", high));
  return *value;
}

std::string CsvRows::here() const { return format("{}, line {}", where_, line_); }

void CsvRows::wrong(std::size_t column, std::string_view expected) const {
  fail(ErrorCode::kInvalidArgument, "{}: {} is '{}', must be {}", here(), escaped(names_[column]),
       escaped(fields_[column]), expected);
}

}  // namespace harmonics::inline in_replay
