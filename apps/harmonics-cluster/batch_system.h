// Batch systems that start workers for us: Slurm and PBS (OpenPBS, PBS Professional, Torque),
// through their commands.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_cluster_program {

/// A job in the queue or running; one that has ended is none.
struct BatchJob {
  std::string id;
  std::string name;
  bool running = false;
  std::string state{};  ///< As the batch system says it.
};

/// A job to be made.
struct BatchRequest {
  std::string name;
  std::string script;                ///< Of sh.
  std::filesystem::path output{};    ///< Of the job, both streams.
  std::vector<std::string> flags{};  ///< The user's own; they come last and so win.
};

/// One of them. Every call runs a command with a deadline; one that fails is an Error with what the
/// command said.
class BatchSystem {
 public:
  virtual ~BatchSystem() = default;
  /// The id of the new job.
  [[nodiscard]] virtual std::string submit(const BatchRequest& request) const = 0;
  /// This user's jobs that have not ended.
  [[nodiscard]] virtual std::vector<BatchJob> jobs() const = 0;
  /// One that has ended meanwhile is no Error.
  virtual void cancel(const std::string& id) const = 0;
  /// Flags of a worker that say what its job was given, as text of sh.
  [[nodiscard]] virtual std::string granted_flags() const = 0;
};

/// "slurm" or "pbs". An Error (kNotFound) where their commands are not in PATH.
[[nodiscard]] std::unique_ptr<BatchSystem> make_batch_system(const std::string& kind);

/// What 'squeue --noheader --format %i|%T|%j' prints; a line that is not like that is an Error.
[[nodiscard]] std::vector<BatchJob> parse_squeue(std::string_view text);
/// What 'qstat -f' prints: of the jobs of `user` those that have not ended.
[[nodiscard]] std::vector<BatchJob> parse_qstat(std::string_view text, std::string_view user);

}  // namespace harmonics::inline in_cluster_program
