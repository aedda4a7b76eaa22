// What Arrow answers, as values and Errors (private to data's Arrow part).
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_data {

/// The file at fault, so that errors can name it.
inline void check_arrow(const arrow::Status& status, const std::string& path) {
  if (status.ok()) return;
  if (status.IsOutOfMemory()) {
    fail(ErrorCode::kResourceExhausted,
         "'{}' needs more memory than a row group may take ({}): write smaller row groups", path,
         status.message());
  }
  fail(ErrorCode::kDataLoss, "'{}' cannot be read: {}", path, status.message());
}

template <typename T>
T arrow_value(arrow::Result<T> result, const std::string& path) {
  check_arrow(result.status(), path);
  return std::move(result).ValueUnsafe();
}

/// What `call` answers. Arrow's readers throw where they were not meant to (Parquet's do); that is
/// an Error like any other.
template <typename Call>
auto guarded(const std::string& path, Call&& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& thrown) {
    fail(ErrorCode::kDataLoss, "'{}' cannot be read: {}", path, thrown.what());
  }
}

}  // namespace harmonics::inline in_data
