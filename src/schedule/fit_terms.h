// What the parts of a run must agree on to fit, or stream, together (private to schedule).
#pragma once

#include <string_view>

#include <harmonics/schedule/run_agreement.h>

namespace harmonics::inline in_schedule {

/// Adds another part's terms to `terms`. What contradicts is an Error that names the part.
void join_terms(FitTerms& terms, const FitTerms& other, std::string_view part);
/// The same for a stream, where nothing contradicts: it begins where the consumers that have got
/// least left off, and keeps to the least number in flight.
void join_terms(StreamTerms& terms, const StreamTerms& other);

}  // namespace harmonics::inline in_schedule
