// A policy from a shared library, at arm's length: it runs in a child process with a time limit, so
// that one that throws, crashes or hangs costs a decision and not the server.
//
// The library exports
//   extern "C" harmonics::WorkloadPolicy* harmonics_make_policy();
// and is built against the headers of module cluster.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>

#include <harmonics/cluster/policy.h>

namespace harmonics {

/// The name of the function that a policy library exports.
inline constexpr const char* kPolicyFunction = "harmonics_make_policy";

/// Asks the child for every decision. Throws what WorkloadPolicy says: kResourceExhausted when the
/// policy finds no worker, kInternal for a policy that broke its promise, after which the built-in
/// policy decides; the child is started anew for the next decision. One thread.
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

 private:
  void start();
  void stop();
  std::string exchange(const std::string& question);

  const std::filesystem::path host_;
  const std::filesystem::path library_;
  const std::chrono::milliseconds time_limit_;
  pid_t child_ = -1;
  int socket_ = -1;
};

/// The child's side: loads the library and answers on standard input until it is closed. The exit
/// code.
int serve_policy(const std::filesystem::path& library);

}  // namespace harmonics
