// The CUDA source of token stages (private to runtime).
#pragma once

#include <string_view>

namespace harmonics::inline in_runtime {

/// Numbers of a stage, eight at a time, after kEightsSource. WIDE: float32 instead of 16 bits.
extern const std::string_view kTokenNumbersSource;
/// Products of a few rows, with what comes before and after them.
extern const std::string_view kTokenProductSource;
/// Attention of one row. HEAD_DIM: numbers of a head, eight or a multiple; COPIES: heads of queries
/// for one of keys.
extern const std::string_view kTokenAttentionSource;

}  // namespace harmonics::inline in_runtime
