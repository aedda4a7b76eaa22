// What server and policy library say to each other: lines of JSON (private to server).
//
// A question brings a task and what has changed of the workers since the question before; the first
// one to a child brings all workers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <harmonics/cluster/policy.h>

namespace harmonics::inline in_server {

inline constexpr std::size_t kMaxPolicyAnswerBytes = 64 << 10;

[[nodiscard]] std::string policy_question(const WorkerPool::Changes& changes, const TaskSpec& task);

/// The library's side: a pool that follows the server's, and the answers.
class PolicyDesk {
 public:
  /// `policy` must outlive it.
  explicit PolicyDesk(WorkloadPolicy& policy);
  /// The line to answer a question with. Throws nothing that the policy throws.
  [[nodiscard]] std::string answer(std::string_view question);

 private:
  WorkloadPolicy& policy_;
  std::unique_ptr<WorkerPool> pool_;
};

/// {"error": why}
[[nodiscard]] std::string policy_error(std::string_view why);

}  // namespace harmonics::inline in_server
