// Tasks and workers for people.
#pragma once

#include <string>
#include <vector>

#include <harmonics/base/json.h>
#include <harmonics/rpc/views.h>

namespace harmonics::inline in_clients {

/// A line for each worker that is unable to start tasks, with its reason.
[[nodiscard]] std::string problem_lines(const std::vector<WorkerView>& workers, Time now);
/// "exit code 3", "killed by signal 9 …", or the message.
[[nodiscard]] std::string end_text(const EndResult& end);
/// "worker-1: 0,1" or "-".
[[nodiscard]] std::string place_text(const TaskView& task);
/// "3:05" since then; "-" for a moment that never was.
[[nodiscard]] std::string age_text(Time since, Time now);
/// "45 %  epoch 3" of a line of progress; empty when there is none.
[[nodiscard]] std::string progress_text(const std::string& line, bool with_share = true);
/// 0 to 1; nothing when the line says none.
[[nodiscard]] std::optional<double> progress_share(const std::string& line);
/// Now, as the server counts.
[[nodiscard]] Time wall_time();

/// A stage of an active pipeline, for people.
struct StageLine {
  std::string layers;
  std::string worker;
  std::string progress;
};
/// The folder that the plan of a pipeline calls "checkpoint", where it leaves its weights, or
/// "results", where it keeps the rows that come out; empty when there is no plan, or no such
/// folder.
[[nodiscard]] std::string plan_folder(const TaskView& task, const char* key);
/// The stages of a pipeline that infers whose rows come out, by rank.
[[nodiscard]] std::vector<std::size_t> result_ranks(const TaskView& task);
/// Empty unless the task is a pipeline that runs or has ended.
[[nodiscard]] std::vector<StageLine> stage_lines(const TaskView& task);

}  // namespace harmonics::inline in_clients
