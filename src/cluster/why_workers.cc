// Why a task waits: the part of it that is about workers which are silent or unable to start tasks.
#include <algorithm>

#include <harmonics/base/error.h>

#include "reactor_parts.h"

namespace harmonics::inline in_cluster {
namespace {

std::int64_t whole_seconds(Nanoseconds time) {
  return std::chrono::ceil<std::chrono::seconds>(std::max(time, Nanoseconds{})).count();
}

}  // namespace

WhyPending ServerReactor::why_active(const TaskRecord& task, Time now) const {
  std::string text = format("Attempt {} is active.", task.attempts.value);
  for (const Member& member : running(task).members) {
    const SessionView view = session(member.worker);
    const WorkerRecord* worker = parts_->state.find_worker(member.worker);
    if (member.ended || view.connected || worker == nullptr) continue;
    text += format(" Worker '{}' has been silent for {} s", worker->spec.name,
                   whole_seconds(now - view.heard));
    if (task.spec().on_disconnect == OnDisconnect::kForever) {
      text += ", and it is waited for until it comes back or is given up by hand";
    } else if (view.hold_over != Time{}) {
      text += format("; the task may go on there, and is given up in {} s",
                     whole_seconds(view.hold_over - now));
    }
    text += format(" (if that machine is dead: 'harmonics drain {} --forget').", worker->spec.name);
    break;
  }
  return {WhyPending::Reason::kNotPending, text, 0};
}

WhyPending ServerReactor::with_resting(WhyPending why, const TaskRecord& task, Time now) const {
  using Reason = WhyPending::Reason;
  if (why.reason != Reason::kNoWorkers && why.reason != Reason::kBusy) return why;
  std::size_t resting = 0;
  std::string first;
  for (const Worker* worker : parts_->state.pool().all()) {
    if (!could_ever_run(worker->spec, task.spec())) continue;
    if (!parts_->sessions.resting(worker->id)) continue;
    if (resting++ > 0) continue;
    const Inability& unable = parts_->sessions.find(worker->id)->unable;
    first = format("worker '{}': {}; {}", worker->spec.name, unable.reason,
                   unable.trying
                       ? "a task is being tried there"
                       : format("it is tried again in {} s", whole_seconds(unable.until - now)));
  }
  if (resting == 0) return why;
  if (why.reason == Reason::kNoWorkers) {
    why.reason = Reason::kUnable;
    why.text = "Too few of the workers that could run it are able to start tasks now.";
  }
  why.text += format(" {} of those that could are unable for now ({}).", resting, first);
  return why;
}

}  // namespace harmonics::inline in_cluster
