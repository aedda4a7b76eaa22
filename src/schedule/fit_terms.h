// How the parts of a run tell each other what they fit by and what they measured (private to
// schedule).
#pragma once

#include <string>
#include <string_view>

#include <harmonics/runtime/batch_runner.h>

namespace harmonics::inline in_schedule {

[[nodiscard]] std::string encode(const FitTerms& terms);
[[nodiscard]] std::string encode(const TapReport& taps);
// Bytes that are none are an Error (kDataLoss).
[[nodiscard]] FitTerms decode_fit_terms(std::string_view text);
[[nodiscard]] TapReport decode_tap_report(std::string_view text);

/// Adds another part's terms to `terms`. What contradicts is an Error that names the part.
void join_terms(FitTerms& terms, const FitTerms& other, std::string_view part);

}  // namespace harmonics::inline in_schedule
