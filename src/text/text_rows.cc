#include <harmonics/text/text_rows.h>

#include <algorithm>
#include <cstring>

#include <harmonics/base/error.h>

namespace harmonics::inline in_text {
namespace {

constexpr std::size_t kRowsBlockBytes = std::size_t{256} << 10;
constexpr std::string_view kMark = "\xEF\xBB\xBF";

}  // namespace

TextRows::TextRows(ByteSourcePtr source) : source_(std::move(source)) {
  std::vector<char> block(kRowsBlockBytes);
  const std::uint64_t size = source_->size();
  offsets_.push_back(0);
  for (std::uint64_t at = 0; at < size; at += block.size()) {
    const auto part = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size - at)));
    source_->read_at(at, part);
    if (at == 0 && std::string_view(part.data(), part.size()).starts_with(kMark)) {
      offsets_[0] = kMark.size();
    }
    for (const char *found = part.data(), *const end = part.data() + part.size(); found != end;) {
      found =
          static_cast<const char*>(std::memchr(found, '\n', static_cast<std::size_t>(end - found)));
      if (found == nullptr) break;
      ++found;
      offsets_.push_back(at + static_cast<std::uint64_t>(found - part.data()));
      if (offsets_.size() > kMaxTextRows) {
        fail(ErrorCode::kResourceExhausted, "'{}' has more than {} lines: split it",
             source_->path(), kMaxTextRows);
      }
    }
  }
  if (offsets_.back() < size) offsets_.push_back(size);
}

std::string TextRows::place_of(std::int64_t row) const {
  return format("'{}' line {}", source_->path(), row + 1);
}

std::string TextRows::line(std::int64_t row) const {
  if (row < 0 || row >= count()) {
    fail(ErrorCode::kOutOfRange, "'{}' has no row {}: it has {}", source_->path(), row, count());
  }
  const std::uint64_t begin = offsets_[static_cast<std::size_t>(row)];
  const std::uint64_t length = offsets_[static_cast<std::size_t>(row) + 1] - begin;
  if (length > kMaxRowBytes) {
    fail(ErrorCode::kInvalidArgument, "{} has {} bytes, at most {}: split it", place_of(row),
         length, kMaxRowBytes);
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  source_->read_at(begin, text);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Json TextRows::json(std::int64_t row) const { return Json::parse(line(row), place_of(row)); }

std::string TextRows::json_text(std::int64_t row, const std::string& field) const {
  const Json value = json(row);
  if (value.is_string()) return value.as_string();
  const Json* member = value.is_object() ? value.find(field) : nullptr;
  if (member == nullptr || !member->is_string()) {
    fail(ErrorCode::kInvalidArgument,
         "{} is neither a text nor an object with a text as '{}'; name another with field=…",
         place_of(row), field);
  }
  return member->as_string();
}

}  // namespace harmonics::inline in_text
