// What the parts of a run must agree on to fit together (private to schedule).
#pragma once

#include <string_view>

#include <harmonics/schedule/run_agreement.h>

namespace harmonics::inline in_schedule {

/// Adds another part's terms to `terms`. What contradicts is an Error that names the part.
void join_terms(FitTerms& terms, const FitTerms& other, std::string_view part);

}  // namespace harmonics::inline in_schedule
