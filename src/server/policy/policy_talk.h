// What server and policy library say to each other: lines of JSON (private to server).
//
// A question brings a task, unless it is the one before, and what has changed of the workers since
// the question before; the first one to a child brings all workers. What a worker is travels when
// it is new, what it has free whenever that changes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <harmonics/base/json.h>
#include <harmonics/cluster/policy.h>

namespace harmonics::inline in_server {

inline constexpr std::size_t kMaxPolicyAnswerBytes = 64 << 10;

/// The server's side: knows what the library has been told. One thread; the workers of all
/// questions must be one pool.
class PolicyTeller {
 public:
  /// The line to ask with. It counts as told: if it does not arrive, call `begin_anew`.
  [[nodiscard]] std::string question(const WorkerPool& workers, const TaskSpec& task);
  /// The same for the level of a task.
  [[nodiscard]] std::string question(const Standing& standing);
  /// Another library listens, who knows nothing.
  void begin_anew();

 private:
  [[nodiscard]] Json worker_json(const Worker& worker);

  std::uint64_t told_ = 0;                          ///< The version of the pool.
  std::unordered_map<WorkerId, WorkerSpec> specs_;  ///< As they were told.
  std::optional<TaskSpec> task_;
};

/// The library's side: a pool that follows the server's, and the answers.
class PolicyDesk {
 public:
  /// `policy` must outlive it.
  explicit PolicyDesk(WorkloadPolicy& policy);
  /// The line to answer a question with. Throws nothing that the policy throws.
  [[nodiscard]] std::string answer(std::string_view question);

 private:
  [[nodiscard]] Worker read_worker(const Json& json) const;
  [[nodiscard]] Json answer_to(const Json& question);

  WorkloadPolicy& policy_;
  std::unique_ptr<WorkerPool> pool_;
  TaskSpec task_;
};

/// What a library says first: {"rule": ...}; and what it means.
[[nodiscard]] std::string policy_greeting(const WorkloadPolicy& policy);
[[nodiscard]] OrderRule read_rule(const Json& greeting);

/// {"error": why}
[[nodiscard]] std::string policy_error(std::string_view why);

}  // namespace harmonics::inline in_server
