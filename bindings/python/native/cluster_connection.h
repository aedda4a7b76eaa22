// A connection to a cluster in the words of the command line: what harmonics._cluster shows Python.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <harmonics/clients/access.h>
#include <harmonics/options/cluster_commands.h>
#include <harmonics/rpc/client.h>

namespace harmonics::python {

/// "--gpus=2" and its like.
using Flags = std::vector<std::string>;

/// What is submitted: flags of `harmonics submit`, the program and its arguments (none: the
/// built-in trainer, or what the flags name), and files that Python made.
struct TaskToSubmit {
  Flags flags;
  std::vector<std::string> command;
  std::vector<TaskFile> files;
  std::string key;  ///< The idempotency key, where the flags say none.
};

/// An Error (kInvalidArgument), with its text, where the command line would not take these words.
void check_words(const std::vector<std::string>& words);

/// Every member knows nothing of Python, waits without the GIL, and may be called from any thread.
/// What is wrong with flags is an Error (kInvalidArgument) with the text of the command line.
class ClusterConnection {
 public:
  ClusterConnection(const Flags& flags, const ClientPatience& waiting);

  [[nodiscard]] Submitted submit(const TaskToSubmit& submission);
  [[nodiscard]] std::vector<SubmitOutcome> submit_all(const std::vector<TaskToSubmit>& submissions);
  void cancel(TaskId task) { client_->cancel(task); }
  [[nodiscard]] WhyPending why(TaskId task) { return client_->why(task); }
  /// JSON as `harmonics task --output json` prints it, and so on.
  [[nodiscard]] std::string task(TaskId task);
  [[nodiscard]] std::string tasks(const Flags& flags);
  [[nodiscard]] std::string workers();
  [[nodiscard]] std::string status();
  /// A page of brief tasks from `from` on, oldest first, in these states; and where the next begins
  /// (0: nowhere).
  [[nodiscard]] std::pair<std::string, std::uint64_t> page(TaskId from,
                                                           const std::vector<std::string>& states);
  /// Ids of those tasks from `from` up to `last` that have ended.
  [[nodiscard]] std::vector<std::uint64_t> ended(TaskId from, TaskId last);
  /// As `harmonics wait` does; less than nothing: as long as it takes.
  [[nodiscard]] WaitResult wait(const std::vector<std::int64_t>& tasks, double timeout_s);
  [[nodiscard]] std::unique_ptr<OutputStream> logs(const Flags& flags);
  [[nodiscard]] std::vector<ArtifactView> artifacts(const Flags& flags);
  /// All bytes of one artifact of the latest attempt.
  [[nodiscard]] std::string artifact(TaskId task, const std::string& path);

 private:
  [[nodiscard]] SubmitCommand submit_command(const Flags& flags);
  [[nodiscard]] TaskSpec spec_of(const TaskToSubmit& submission);

  std::unique_ptr<ClusterClient> client_;
  std::mutex mutex_;
  std::map<Flags, SubmitCommand> known_;  ///< Flags that were read before; bounded.
};

}  // namespace harmonics::python
