// Words about tasks that no worker of the cluster could run.
#pragma once

#include <string>

#include <harmonics/cluster/task.h>
#include <harmonics/cluster/worker_pool.h>

namespace harmonics::inline in_cluster {

/// "2 devices with 4096 MB each, 3 cores on each of 4 workers".
[[nodiscard]] std::string needs_text(const TaskSpec& spec);

/// What would run in place of a task that no worker of `pool` could ever run, in a sentence: to ask
/// for no GPU where nobody has one, else what the largest workers have.
[[nodiscard]] std::string way_out(const WorkerPool& pool, const TaskSpec& spec);

/// Which workers run no stages of pipelines and why, in a sentence with a space before it; empty
/// when all do, or the task is no pipeline.
[[nodiscard]] std::string without_stages(const WorkerPool& pool, const TaskSpec& spec);

/// What it needs and what is missing, if no worker that is known could run it; empty when they
/// could, or when none is known yet.
struct Advice {
  std::string text{};
  bool hopeless = false;  ///< Not one worker that is known could run it; else too few for its gang.
};
[[nodiscard]] Advice advice_for(const WorkerPool& pool, const TaskSpec& spec);

}  // namespace harmonics::inline in_cluster
