#include "happenings.h"

#include <algorithm>

namespace harmonics::inline in_server {

void Happenings::add(Happening one) {
  one.number = ++last_;
  kept_.push_back(std::move(one));
  if (kept_.size() > kMaxKept) kept_.pop_front();
}

void Happenings::note_task(const ClusterState& state, TaskId task, std::string_view kind,
                           Time now) {
  const TaskRecord* known = state.find_task(task);
  if (known == nullptr) return;
  add({0, now, std::string(kind), task, known->submission->user, known->spec().name});
}

void Happenings::note_worker(const std::string& name, const char* kind, Time now) {
  add({0, now, kind, {}, {}, name});
}

void Happenings::learn(const ClusterState& state, const Fact& fact, Time now) {
  const auto worker_said = [&](WorkerId id, const char* kind) {
    if (const WorkerRecord* worker = state.find_worker(id)) {
      note_worker(worker->spec.name, kind, now);
    }
  };
  if (const auto* submitted = std::get_if<TasksSubmitted>(&fact)) {
    note_task(state, submitted->submission->first, "submitted", now);
  } else if (const auto* started = std::get_if<AttemptStarted>(&fact)) {
    note_task(state, started->id.task, "started", now);
  } else if (const auto* requeued = std::get_if<AttemptRequeued>(&fact)) {
    const bool lost = requeued->reason == AttemptRequeued::Reason::kLoss;
    note_task(state, requeued->id.task, lost ? "lost" : "requeued", now);
  } else if (const auto* ended = std::get_if<TaskEnded>(&fact)) {
    note_task(state, ended->task, to_string(ended->outcome), now);
  } else if (const auto* draining = std::get_if<WorkerDraining>(&fact)) {
    worker_said(draining->worker, draining->draining ? "draining" : "no longer draining");
  }
}

void Happenings::fill(const PictureQuery& query, PictureView& view) const {
  view.last = last_;
  for (auto one = kept_.rbegin(); one != kept_.rend(); ++one) {
    if (one->number <= query.seen || view.happened.size() == kMaxHappenings) break;
    const bool seen =
        one->task == TaskId{} || query.viewer.sees_all || one->user == query.viewer.user;
    if (seen) view.happened.push_back(*one);
  }
  std::ranges::reverse(view.happened);
}

}  // namespace harmonics::inline in_server
