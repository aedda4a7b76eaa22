// Why a task waits: the part of it that workers are unable to start tasks.
#include <algorithm>

#include <harmonics/base/error.h>

#include "reactor_parts.h"

namespace harmonics {

WhyPending ServerReactor::with_resting(WhyPending why, const TaskRecord& task, Time now) const {
  using Reason = WhyPending::Reason;
  if (why.reason != Reason::kNoWorkers && why.reason != Reason::kBusy) return why;
  std::size_t resting = 0;
  std::string first;
  for (const Worker* worker : parts_->state.pool().all()) {
    if (!could_ever_fit(worker->spec, needs_of(task.spec()))) continue;
    if (!parts_->sessions.resting(worker->id)) continue;
    if (resting++ > 0) continue;
    const Inability& unable = parts_->sessions.find(worker->id)->unable;
    const Nanoseconds left = std::max(unable.until - now, Nanoseconds{});
    first = format("worker '{}': {}; {}", worker->spec.name, unable.reason,
                   unable.trying ? "a task is being tried there"
                                 : format("it is tried again in {} s",
                                          std::chrono::ceil<std::chrono::seconds>(left).count()));
  }
  if (resting == 0) return why;
  if (why.reason == Reason::kNoWorkers) {
    why.reason = Reason::kUnable;
    why.text = "Too few of the workers that could run it are able to start tasks now.";
  }
  why.text += format(" {} of those that could are unable for now ({}).", resting, first);
  return why;
}

}  // namespace harmonics
