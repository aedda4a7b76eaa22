// For tests that do not know Arrow: a small Parquet file.
#pragma once

#include <string>

namespace harmonics::inline in_data {

/// Seven rows of a column `a`, int64 0 to 6, in groups of three.
[[nodiscard]] std::string small_parquet();

}  // namespace harmonics::inline in_data
