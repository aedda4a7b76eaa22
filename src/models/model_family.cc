#include "model_family.h"

#include <harmonics/base/error.h>

namespace harmonics::inline in_models {

std::string DraftRequest::full_name(std::string_view theirs) const {
  if (theirs.starts_with('/')) return std::string(theirs.substr(1));
  return prefix + std::string(theirs);
}

bool DraftRequest::has(std::string_view theirs) const {
  return source.entries().contains(full_name(theirs));
}

std::int64_t DraftRequest::rows(std::string_view theirs) const {
  const Shape& shape = source.at(full_name(theirs)).shape;
  if (shape.empty()) {
    fail(ErrorCode::kInvalidArgument, "tensor '{}' is a single number", full_name(theirs));
  }
  return shape.front();
}

std::int64_t DraftRequest::class_count(std::string_view theirs) const {
  return classes > 0 ? classes : rows(theirs);
}

std::string DraftRequest::axis(std::int64_t ceiling) const {
  const std::int64_t most = length == 0 ? ceiling : length;
  if (most > ceiling) {
    fail(ErrorCode::kInvalidArgument, "a length of {} is above the model's {}", most, ceiling);
  }
  return format("axis T <= {};", most);
}

std::string filled(std::string_view text, const Placeholders& values) {
  std::string out;
  while (!text.empty()) {
    const std::size_t open = text.find('%');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find('%', open + 1);
    const auto value = values.find(text.substr(open + 1, close - open - 1));
    if (close == std::string_view::npos || value == values.end()) {
      fail(ErrorCode::kInternal, "a placeholder of a model's text has no value: {}",
           text.substr(open, 40));
    }
    out += value->second;
    text.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace harmonics::inline in_models
