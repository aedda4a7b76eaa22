// What users and administrators ask for.
#pragma once

#include <harmonics/cluster/event.h>

#include "decisions.h"

namespace harmonics::inline in_cluster {

// Each answers exactly once; what is refused changes nothing. They throw `Error` for a refusal,
// which the reactor turns into the answer.
void decide(Decisions& step, const SubmitRequest& request);
void decide(Decisions& step, const DagRequest& request);
void decide(Decisions& step, const PriorityRequest& request);
void decide(Decisions& step, const DrainRequest& request);
void decide(Decisions& step, const ForgetRequest& request);
void decide(Decisions& step, const QuotaRequest& request);

/// Tasks that one step cancels at most: an array of a million takes many, so that neither its facts
/// nor its messages ever fill the memory.
inline constexpr std::size_t kMaxCancelsPerStep = 10'000;
/// Tasks that one step ends at most because they wait for one that did not succeed.
inline constexpr std::size_t kMaxDoomedPerStep = 10'000;

/// Tasks that one step looks at most because what they waited for has succeeded.
inline constexpr std::size_t kMaxFreedPerStep = 10'000;

/// What is left to cancel.
struct Cancelling {
  RequestId request{};
  TaskId next{};
  TaskId end{};  ///< One past the last.
};

/// Checks the request; nothing is cancelled yet.
[[nodiscard]] Cancelling begin_cancel(const Decisions& step, const CancelRequest& request);
/// Looks at up to `limit` tasks, cancels them, and answers once that was all; how many it looked
/// at.
std::size_t go_on_cancelling(Decisions& step, Cancelling& cancelling, std::size_t limit);

}  // namespace harmonics::inline in_cluster
