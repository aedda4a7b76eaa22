// A policy from a shared library, at arm's length: it runs in a child process with a time limit and
// a budget for each pass over the queue, so that one that throws, crashes, hangs or is slow costs a
// decision and not the server.
//
// The library exports
//   extern "C" harmonics::WorkloadPolicy* harmonics_make_policy();
// and is built against the headers of modules base and cluster; what it calls of them is found in
// the program that loads it, so that it is linked with nothing (docs/guides/cluster.md has the
// line).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <harmonics/base/descriptor.h>
#include <harmonics/cluster/policy.h>

namespace harmonics::inline in_server {

/// The name of the function that a policy library exports.
inline constexpr const char* kPolicyFunction = "harmonics_make_policy";

class PolicyPatience;
class PolicyTeller;

/// Asks the child for every decision. Throws what WorkloadPolicy says: kResourceExhausted when the
/// policy finds no worker, kInternal for a policy that broke its promise, after which the built-in
/// policy decides; the child is started anew for the next decision. One that is late, crashes again
/// and again or is slow in pass after pass is left out for a while, which the log says: `balanced`
/// decides instead, and the rest of a pass whose budget is spent. One thread; the workers of all
/// questions must be one pool.
class PolicyProcess final : public WorkloadPolicy {
 public:
  /// `host` is the program that serve_policy runs in, called as `host policy-host LIBRARY`. Throws
  /// an Error when the library cannot be loaded.
  PolicyProcess(std::filesystem::path host, std::filesystem::path library,
                std::chrono::milliseconds time_limit);
  ~PolicyProcess() override;
  PolicyProcess(const PolicyProcess&) = delete;
  PolicyProcess& operator=(const PolicyProcess&) = delete;

  Assignment assign_task(const WorkerPool& workers, const TaskSpec& task) override;
  std::optional<Assignment> try_assign(const WorkerPool& workers, const TaskSpec& task) override;
  void begin_pass() override;
  /// What the library said as it was loaded.
  [[nodiscard]] OrderRule rule() const override { return rule_; }
  /// The library's where its rule puts levels first, else that of every policy. A level that it
  /// does not give in time is that of every policy too.
  [[nodiscard]] std::uint32_t level(const Standing& standing) override;

 private:
  std::optional<std::uint32_t> ask_level(const Standing& standing);
  template <typename Line>
  Json question_and_answer(Line line);
  std::optional<Assignment> ask(const WorkerPool& workers, const TaskSpec& task);
  void start();
  void stop();
  std::string exchange(const std::string& question);

  const std::filesystem::path host_;
  const std::filesystem::path library_;
  const std::chrono::milliseconds time_limit_;
  pid_t child_ = -1;
  Descriptor socket_;
  std::unique_ptr<PolicyTeller> teller_;
  std::unique_ptr<PolicyPatience> patience_;
  BalancedPolicy balanced_;
  OrderRule rule_ = OrderRule::kShares;
};

/// The policy of a server's --policy: a name, or the path of a library, which runs in `host`. A
/// decision of it takes at most a second.
[[nodiscard]] std::unique_ptr<WorkloadPolicy> open_policy(const std::string& name,
                                                          const std::filesystem::path& host);

/// The child's side: loads the library and answers on standard input until it is closed. The exit
/// code.
int serve_policy(const std::filesystem::path& library);

}  // namespace harmonics::inline in_server
