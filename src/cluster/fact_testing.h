// Facts drawn at random, each kind with each of its parts.
#pragma once

#include <algorithm>

#include <harmonics/base/random.h>
#include <harmonics/cluster/fact.h>

#include "task/task_testing.h"

namespace harmonics::inline in_cluster {

inline std::string random_text(Random& random) {
  std::string text(random.below(random.below(8) == 0 ? 300 : 12), ' ');
  for (char& c : text) c = static_cast<char>(1 + random.below(255));
  return text;
}

inline EndResult random_result(Random& random) {
  EndResult result;
  result.kind = static_cast<EndKind>(random.below(9));
  result.exit_code = static_cast<std::int32_t>(random());
  result.signal = static_cast<std::int32_t>(random.below(64));
  result.message = random_text(random);
  if (random.below(2) == 0) result.cpu_ms = random();
  if (random.below(2) == 0) result.peak_memory_kb = random();
  return result;
}

inline std::optional<EndResult> maybe_result(Random& random) {
  if (random.below(2) == 0) return std::nullopt;
  return random_result(random);
}

inline std::vector<Member> random_members(Random& random) {
  std::vector<Member> members(random.below(4));
  for (Member& member : members) {
    member = {WorkerId{random()}, DeviceSet{std::uint64_t{random()} << 32 | random()},
              random.below(2) == 0, maybe_result(random),
              static_cast<std::uint8_t>(random.below(kMaxVariants + 1))};
  }
  return members;
}

inline std::shared_ptr<const Submission> random_submission(Random& random) {
  auto submission = std::make_shared<Submission>();
  submission->first = TaskId{std::uint64_t{random()} << random.below(30)};
  submission->user = random_text(random).substr(0, 100);
  submission->at = Time{static_cast<std::int64_t>(random()) - (1 << 30)};
  submission->spec = random_task_spec(random, false, random.below(3) == 0);
  return submission;
}

inline TaskState random_state(Random& random) {
  switch (random.below(5)) {
    case 0: return Pending{};
    case 1: return Waiting{static_cast<std::uint32_t>(random.below(9))};
    case 2: return Delayed{Time{random()}};
    case 3: {
      Active active{Time{random()}, random_members(random), std::nullopt, {}, false};
      if (random.below(2) == 0) active.stopping = static_cast<StopReason>(random.below(4));
      return active;
    }
    default:
      return Ended(static_cast<TaskOutcome>(random.below(4)), Time{random()}, maybe_result(random));
  }
}

inline WorkerRecord random_record(Random& random) {
  WorkerRecord worker;
  worker.id = WorkerId{random()};
  worker.draining = random.below(2) == 0;
  worker.since = Time{random()};
  worker.spec.name = random_text(random).substr(0, 100);
  worker.spec.address = random_text(random).substr(0, 100);
  worker.spec.identity = random_text(random).substr(0, 100);
  worker.spec.no_stages = random.below(2) == 0;
  worker.spec.cpus = random();
  if (random.below(3) == 0) worker.spec.resources = {{"fpga", random()}, {"tokens", 8}};
  if (random.below(3) == 0) worker.spec.labels = {{"zone", random_text(random)}};
  worker.spec.memory_mb = random();
  for (std::uint64_t n = random.below(4); n > 0; --n) {
    worker.spec.devices.push_back({random_text(random).substr(0, 100), "m", random()});
  }
  return worker;
}

inline TaskKept random_task(Random& random, std::shared_ptr<const Submission> submission) {
  TaskRecord task;
  task.id = TaskId{submission->first.value + random.below(submission->spec.count())};
  task.submission = std::move(submission);
  task.attempts = AttemptNumber{random()};
  task.failures = random();
  task.losses = random();
  task.preemptions = random();
  if (random.below(2) == 0) task.refusals = random();
  task.cancelled = random.below(2) == 0;
  task.state = random_state(random);
  return {task};
}

inline Fact random_fact(Random& random) {
  const AttemptId id{TaskId{random()}, AttemptNumber{random()}};
  switch (random.below(23)) {
    case 0: return TermStarted{Term{random()}, Time{random()}};
    case 1: return TasksSubmitted{random_submission(random)};
    case 2: return AttemptStarted{id, random_members(random), Time{random()}};
    case 3: return MemberLaunched{id, random()};
    case 4: return MemberEnded{id, random(), random_result(random)};
    case 5: return AttemptStopping{id, static_cast<StopReason>(random.below(4))};
    case 6:
      return AttemptRequeued{id, static_cast<AttemptRequeued::Reason>(random.below(5)),
                             Time{random()}};
    case 7: return TaskReady{id.task};
    case 8: return CancelRequested{id.task};
    case 9:
      return TaskEnded{id.task, static_cast<TaskOutcome>(random.below(4)), maybe_result(random),
                       Time{random()}};
    case 10: return TasksForgotten{{TaskId{random()}, TaskId{random()}}};
    case 11: return WorkerRegistered{random_record(random)};
    case 12: return WorkerDraining{WorkerId{random()}, random.below(2) == 0};
    case 13: return WorkerForgotten{WorkerId{random()}};
    case 14: return QuotaSet{random_text(random).substr(0, 100), {random(), random(), random(), 1}};
    case 15: return CountersKept{Term{random()}, id.task, WorkerId{random()}};
    case 16: return PlacesKept{id.task, {WorkerId{random()}, WorkerId{random()}}};
    case 17: return AttemptPlanned{id, random_text(random), random.below(2) == 0};
    case 18: return PastPlacesKept{id, {WorkerId{random()}, WorkerId{random()}}};
    case 19: {
      const Nanoseconds lease{random()};
      return LeasesPromised{lease, lease + Nanoseconds{random()}};
    }
    case 21:
      return PriorityChanged{id.task, static_cast<std::uint32_t>(random.below(1000)),
                             static_cast<std::int32_t>(random.below(2001)) - 1000};
    case 20: return RunCounted{id.task, Nanoseconds{random()}};
    default: return random_task(random, random_submission(random));
  }
}

}  // namespace harmonics::inline in_cluster
