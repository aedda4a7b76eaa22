// What users and administrators ask for.
#pragma once

#include <harmonics/cluster/event.h>

#include "decisions.h"

namespace harmonics {

// Each answers exactly once; what is refused changes nothing. They throw `Error` for a refusal,
// which the reactor turns into the answer.
void decide(Decisions& step, const SubmitRequest& request);
void decide(Decisions& step, const CancelRequest& request);
void decide(Decisions& step, const DrainRequest& request);
void decide(Decisions& step, const ForgetRequest& request);
void decide(Decisions& step, const QuotaRequest& request);

}  // namespace harmonics
