#include "fit_terms.h"

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
void join_terms(FitTerms& terms, const FitTerms& other, std::string_view part) {
  const auto same = [&](std::string_view what, std::int64_t here, std::int64_t there) {
    if (here == there) return;
    fail(ErrorCode::kFailedPrecondition,
         "{} is {} here and {} in part '{}': all parts must fit alike", what, here, there, part);
  };
  same("the number of epochs", terms.last_epoch, other.last_epoch);
  same("the patience", terms.patience, other.patience);
  same("whether checkpoints are saved (1) or not (0)", terms.saves, other.saves);
  same("the number of steps between checkpoints", terms.save_every_steps, other.save_every_steps);
  same("the number of epochs between checkpoints", terms.save_every_epochs,
       other.save_every_epochs);
  terms.epochs_are_steps = terms.epochs_are_steps || other.epochs_are_steps;
  terms.evaluates = terms.evaluates || other.evaluates;
}

void join_terms(StreamTerms& terms, const StreamTerms& other) {
  terms.delivered = std::min(terms.delivered, other.delivered);
  if (terms.in_flight == 0 || other.in_flight == 0) {
    terms.in_flight = std::max(terms.in_flight, other.in_flight);
  } else {
    terms.in_flight = std::min(terms.in_flight, other.in_flight);
  }
}

}  // namespace harmonics::inline in_schedule
