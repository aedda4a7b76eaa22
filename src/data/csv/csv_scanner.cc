#include "csv_scanner.h"

#include <algorithm>
#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

const char* find(const char* begin, const char* end, char wanted) {
  if (begin == end) return end;
  const void* found = std::memchr(begin, wanted, static_cast<std::size_t>(end - begin));
  return found == nullptr ? end : static_cast<const char*>(found);
}

bool is_blank(CsvRowText row) {
  return std::all_of(row.begin, row.end,
                     [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
}

}  // namespace

CsvScanner::CsvScanner(const ByteSource& file, std::uint64_t offset, std::size_t row_bytes_limit)
    : file_(file), row_bytes_limit_(row_bytes_limit), loaded_until_(offset) {
  load_more();
}

std::optional<CsvScanner::Row> CsvScanner::next() {
  while (true) {
    const char* row_end = find_row_end();
    if (row_end == nullptr) {
      if (!all_loaded()) {
        load_more();
        continue;
      }
      if (begin_ == end_) return std::nullopt;
      row_end = end_;
    }
    const std::uint64_t offset = loaded_until_ - static_cast<std::uint64_t>(end_ - begin_);
    if (open_quote_) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' line {}: a quote is opened in this row and never closed", file_.path(),
           line_at(file_, offset));
    }
    check_length(static_cast<std::size_t>(row_end - begin_), offset);
    const Row row{offset, {begin_, row_end}};
    begin_ = row_end;
    if (!is_blank(row.text)) return row;
  }
}

// One past the line end of the row at begin_; null when the row goes on past what is loaded.
const char* CsvScanner::find_row_end() {
  open_quote_ = false;
  const char* from = begin_;
  while (true) {
    const char* const line_end = find(from, end_, '\n');
    if (quote_ < from) quote_ = find(from, end_, '"');
    if (quote_ >= line_end) return line_end == end_ ? nullptr : line_end + 1;
    // A doubled quote closes and opens again at once, so that pairs are all there is to see here.
    const char* const closing = find(quote_ + 1, end_, '"');
    if (closing == end_) {
      open_quote_ = true;
      return nullptr;
    }
    from = closing + 1;
  }
}

void CsvScanner::check_length(std::size_t length, std::uint64_t offset) const {
  if (length <= row_bytes_limit_) return;
  fail(ErrorCode::kResourceExhausted,
       "'{}' line {}: the row is longer than the limit of {} bytes; is a quote left open?",
       file_.path(), line_at(file_, offset), row_bytes_limit_);
}

// Keeps the unfinished row and loads what follows it, at least as much again.
void CsvScanner::load_more() {
  const auto kept = static_cast<std::size_t>(end_ - begin_);
  check_length(kept, loaded_until_ - kept);
  const auto added = static_cast<std::size_t>(
      std::min<std::uint64_t>(std::max(kBlockBytes, kept), file_.size() - loaded_until_));
  // Moved first: growing keeps the front of the block and nothing else is wanted.
  if (kept > 0) std::memmove(block_.data(), begin_, kept);
  block_.resize(std::max(block_.size(), kept + added + kCsvPadding));
  file_.read_at(loaded_until_, std::span(block_).subspan(kept, added));
  std::fill_n(block_.data() + kept + added, kCsvPadding, '\n');
  loaded_until_ += added;
  begin_ = block_.data();
  end_ = begin_ + kept + added;
  quote_ = find(begin_, end_, '"');
}

std::uint64_t line_at(const ByteSource& file, std::uint64_t offset) {
  std::uint64_t line = 1;
  std::vector<char> block(kBlockBytes);
  for (std::uint64_t at = 0; at < offset; at += kBlockBytes) {
    const auto part = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, offset - at)));
    file.read_at(at, part);
    line += static_cast<std::uint64_t>(std::ranges::count(part, '\n'));
  }
  return line;
}

}  // namespace harmonics::inline in_data
