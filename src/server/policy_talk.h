// What server and policy library say to each other: lines of JSON (private to server).
#pragma once

#include <string>
#include <string_view>

#include <harmonics/cluster/policy.h>

namespace harmonics {

inline constexpr std::size_t kMaxPolicyAnswerBytes = 64 << 10;

/// One task and the workers as they are, in a line.
[[nodiscard]] std::string policy_question(const WorkerPool& workers, const TaskSpec& task);
/// Rebuilds the pool of a question, asks `policy`, and gives the line to answer with.
[[nodiscard]] std::string policy_answer(WorkloadPolicy& policy, std::string_view question);
/// {"error": why}
[[nodiscard]] std::string policy_error(std::string_view why);

}  // namespace harmonics
