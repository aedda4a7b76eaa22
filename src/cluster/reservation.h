// Where and when the task at the head of the queue will start, and who must make room for it.
#pragma once

#include <optional>
#include <vector>

#include "decisions.h"
#include "turns.h"

namespace harmonics::inline in_cluster {

/// How many workers are weighed for a reservation or a preemption; the first that could do.
inline constexpr std::size_t kMaxReservationCandidates = 256;

/// A worker and when it will have room, as far as time limits tell.
struct Vacancy {
  WorkerId worker{};
  Time at{};              ///< kNever: something without a time limit must end first.
  std::size_t waits = 0;  ///< How many attempts must end before.
  Worker then{};          ///< What it has free at that time.
  Needs head{};           ///< What it is kept for.
};

/// When `worker` has room for `needs`; nothing if it never has. Attempts end at their time limit
/// plus the grace at the latest, stopping ones at the end of the grace.
[[nodiscard]] std::optional<Vacancy> find_vacancy(const Decisions& step, const Worker& worker,
                                                  const Needs& needs);

/// Whether something that takes `devices` and `needs` from the vacancy's worker now, and may never
/// end, cannot delay what waits for it with `head` needs; the vacancy then counts without them.
/// Where the time of the vacancy is not known: whichever of the attempts there end, in whatever
/// order, the head fits no later than it would otherwise.
[[nodiscard]] bool leaves_room(const Decisions& step, Vacancy& vacancy, DeviceSet devices,
                               const Needs& needs, const Needs& head);

/// Open workers that could run that variant of a task if they were empty, most free devices first.
[[nodiscard]] std::vector<const Worker*> capable_workers(const Decisions& step,
                                                         const TaskSpec& spec,
                                                         std::uint32_t variant);

/// The workers that will have room for that variant of the task first: as many as its gang, or
/// none.
[[nodiscard]] std::vector<Vacancy> find_vacancies(const Decisions& step, const TaskRecord& task,
                                                  std::uint32_t variant);

/// Attempts of lower priority whose end gives `task` room for that variant, on as many workers as
/// its gang.
struct Preemption {
  std::vector<WorkerId> workers;
  std::vector<TaskId> victims;
};
[[nodiscard]] std::optional<Preemption> find_preemption(const Decisions& step,
                                                        const TaskRecord& task,
                                                        std::uint32_t variant,
                                                        const Ranking& ranking);

}  // namespace harmonics::inline in_cluster
