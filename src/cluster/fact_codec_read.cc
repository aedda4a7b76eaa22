#include <limits>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/cluster/fact_codec.h>

#include "fact_bytes.h"

namespace harmonics::inline in_cluster {
namespace {

constexpr std::size_t kMaxForgotten = 1 << 20;

class Reader {
 public:
  Reader(ByteSpan bytes, const std::string& where) : in_(bytes, where) {}

  [[nodiscard]] bool done() const { return in_.left() == 0; }
  [[nodiscard]] std::uint8_t tag() { return in_.number<std::uint8_t>(); }
  [[noreturn]] void broken(std::string_view what) const { in_.broken(what); }

  std::uint64_t number(std::uint64_t limit = ~std::uint64_t{0}) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = in_.number<std::uint8_t>();
      if (shift > 63 || (shift == 63 && byte > 1)) in_.broken("a number of more than 64 bits");
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    if (value > limit) in_.broken("a number above its limit");
    return value;
  }
  template <typename Number>
  void read(Number& value) {
    value = static_cast<Number>(number(std::numeric_limits<Number>::max()));
  }
  template <typename Tag, typename Number>
  void read(Id<Tag, Number>& id) {
    read(id.value);
  }
  std::int64_t integer() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  void read_int32(std::int32_t& out) {
    const std::int64_t value = integer();
    if (!std::in_range<std::int32_t>(value)) in_.broken("a number above its limit");
    out = static_cast<std::int32_t>(value);
  }
  Time time() { return Time{integer()}; }
  bool flag() { return number(1) == 1; }
  template <typename Kind>
  Kind kind(Kind last) {
    return static_cast<Kind>(number(static_cast<std::uint64_t>(last)));
  }
  std::string text(std::size_t limit = kMaxTaskTextBytes) {
    return text_of(in_.take(number(limit)));
  }
  std::size_t count(std::size_t limit) {
    const std::uint64_t items = number(limit);
    if (items > in_.left()) in_.broken("a count that cannot fit");
    return items;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> values(count(kMaxTaskEntries));
    for (std::string& value : values) value = text();
    return values;
  }
  TextPairs pairs() {
    TextPairs values(count(kMaxTaskEntries));
    for (auto& [key, value] : values) {
      key = text();
      value = text();
    }
    return values;
  }
  AttemptId attempt() {
    AttemptId id;
    read(id.task);
    read(id.attempt);
    return id;
  }
  EndResult result() {
    EndResult result;
    result.kind = kind(EndKind::kUnable);
    read_int32(result.exit_code);
    read_int32(result.signal);
    result.message = text();
    return result;
  }
  std::optional<EndResult> maybe_result() {
    if (!flag()) return std::nullopt;
    return result();
  }
  std::vector<Member> members() {
    std::vector<Member> members(count(kMaxGangWorkers));
    for (Member& member : members) {
      read(member.worker);
      read(member.devices.bits);
      member.launched = flag();
      member.ended = maybe_result();
    }
    return members;
  }
  TaskSpec spec();
  PipelineSpec pipeline();
  std::vector<TaskFile> files();
  std::shared_ptr<const Submission> submission();
  WorkerRecord worker();
  TaskRecord task(std::shared_ptr<const Submission> submission);

 private:
  TaskState state();

  ByteReader in_;
};

TaskSpec Reader::spec() {
  TaskSpec spec;
  spec.name = text();
  read(spec.required_gpus);
  read(spec.min_gpu_memory_mb);
  spec.params = pairs();
  spec.command = texts();
  spec.env = pairs();
  spec.working_dir = text();
  read(spec.cpus);
  read(spec.memory_mb);
  read(spec.timeout_s);
  read(spec.max_retries);
  read_int32(spec.priority);
  read(spec.gang);
  read(spec.array);
  spec.depends_on.resize(count(kMaxTaskDependencies));
  for (TaskId& id : spec.depends_on) read(id);
  spec.idempotency_key = text();
  spec.artifacts = texts();
  const std::uint64_t flags = number(64 + 15);
  if ((flags & 48) != 0) in_.broken("a task with more than is known of tasks");
  if ((flags & 9) == 9) in_.broken("a task that continues in two ways");
  spec.on_disconnect = (flags & 1) != 0   ? OnDisconnect::kForever
                       : (flags & 8) != 0 ? OnDisconnect::kContinue
                                          : OnDisconnect::kStop;
  if ((flags & 2) != 0) spec.pipeline = pipeline();
  if ((flags & 4) != 0) read(spec.max_losses);
  if ((flags & 64) != 0) spec.files = files();
  try {
    check_task(spec);
  } catch (const Error& error) {
    in_.broken(error.what());
  }
  return spec;
}

PipelineSpec Reader::pipeline() {
  PipelineSpec spec;
  spec.model = text();
  spec.graph = text();
  read(spec.stages);
  spec.bindings = pairs();
  spec.settings = pairs();
  spec.checkpoint = text();
  read(spec.checkpoint_every);
  const std::uint64_t wishes = number(15);
  spec.profile = (wishes & 1) != 0;
  spec.trace = (wishes & 2) != 0;
  spec.elastic = (wishes & 4) != 0;
  spec.secure = (wishes & 8) != 0;
  lift_old_settings(spec);
  return spec;
}

std::vector<TaskFile> Reader::files() {
  std::vector<TaskFile> files(count(kMaxTaskFiles));
  for (TaskFile& file : files) {
    file.path = text();
    file.data = text(kMaxTaskFileBytes);
    file.executable = flag();
  }
  return files;
}

std::shared_ptr<const Submission> Reader::submission() {
  auto submission = std::make_shared<Submission>();
  read(submission->first);
  submission->user = text(kMaxTaskNameBytes);
  submission->at = time();
  submission->spec = spec();
  return submission;
}

WorkerRecord Reader::worker() {
  WorkerRecord worker;
  read(worker.id);
  worker.draining = flag();
  worker.since = time();
  worker.spec.name = text(kMaxWorkerTextBytes);
  worker.spec.address = text(kMaxWorkerTextBytes);
  worker.spec.identity = text(kMaxWorkerTextBytes);
  read(worker.spec.cpus);
  read(worker.spec.memory_mb);
  worker.spec.devices.resize(count(kMaxDevicesPerWorker));
  for (DeviceSpec& device : worker.spec.devices) {
    device.name = text(kMaxWorkerTextBytes);
    device.model = text(kMaxWorkerTextBytes);
    read(device.memory_mb);
  }
  return worker;
}

TaskState Reader::state() {
  switch (number(4)) {
    case 0: return Pending{};
    case 1: {
      Waiting waiting;
      read(waiting.dependencies);
      return waiting;
    }
    case 2: return Delayed{time()};
    case 3: {
      Active active;
      active.since = time();
      const std::uint64_t reason = number(1 + static_cast<std::uint64_t>(StopReason::kUnknown));
      if (reason != 0) active.stopping = static_cast<StopReason>(reason - 1);
      active.members = members();
      return active;
    }
    default: {
      const auto outcome = kind(TaskOutcome::kDependencyFailed);
      const Time at = time();
      return Ended(outcome, at, maybe_result());
    }
  }
}

TaskRecord Reader::task(std::shared_ptr<const Submission> submission) {
  TaskRecord task;
  task.submission = std::move(submission);
  read(task.id);
  const std::uint64_t first = task.submission->first.value;
  if (task.id.value < first || task.id.value - first >= task.submission->spec.count()) {
    in_.broken("a task outside its submission");
  }
  read(task.attempts);
  read(task.failures);
  read(task.losses);
  read(task.preemptions);
  const std::uint64_t flags = number(3);
  task.cancelled = (flags & 1) != 0;
  if ((flags & 2) != 0) read(task.refusals);
  task.state = state();
  return task;
}

std::vector<WorkerId> read_places(Reader& in) {
  std::vector<WorkerId> places(in.count(kMaxGangWorkers));
  for (WorkerId& worker : places) in.read(worker);
  return places;
}

Fact read_worker_fact(Reader& in, std::uint8_t tag) {
  switch (tag) {
    case kFactTag<WorkerRegistered>: return WorkerRegistered{in.worker()};
    case kFactTag<WorkerDraining>: {
      WorkerDraining fact;
      in.read(fact.worker);
      fact.draining = in.flag();
      return fact;
    }
    case kFactTag<WorkerForgotten>: {
      WorkerForgotten fact;
      in.read(fact.worker);
      return fact;
    }
    case kFactTag<QuotaSet>: {
      QuotaSet fact;
      fact.user = in.text(kMaxTaskNameBytes);
      in.read(fact.quota.max_gpus);
      in.read(fact.quota.max_active);
      in.read(fact.quota.max_waiting);
      in.read(fact.quota.weight);
      if (fact.quota.weight == 0) in.broken("a weight of zero");
      return fact;
    }
    case kFactTag<LeasesPromised>: {
      const Nanoseconds lease = in.time();
      const Nanoseconds hold = in.time();
      if (lease < Nanoseconds{} || hold < lease) in.broken("a hold that is shorter than the lease");
      return LeasesPromised{lease, hold};
    }
    case kFactTag<CountersKept>: {
      CountersKept fact;
      in.read(fact.term);
      in.read(fact.next_task);
      in.read(fact.next_worker);
      return fact;
    }
    case kFactTag<PlacesKept>: {
      PlacesKept fact;
      in.read(fact.task);
      fact.places = read_places(in);
      return fact;
    }
    case kFactTag<PastPlacesKept>: {
      const AttemptId id = in.attempt();
      return PastPlacesKept{id, read_places(in)};
    }
    case kFactTag<AttemptPlanned>: {
      AttemptPlanned fact{in.attempt(), {}, false};
      fact.plan = in.text(kMaxPlanBytes);
      fact.measures = in.flag();
      return fact;
    }
    default: in.broken("a fact of an unknown kind");
  }
}

Fact read_attempt_fact(Reader& in, std::uint8_t tag) {
  const AttemptId id = in.attempt();
  switch (tag) {
    case kFactTag<AttemptStarted>: {
      const Time at = in.time();
      return AttemptStarted{id, in.members(), at};
    }
    case kFactTag<MemberLaunched>: {
      MemberLaunched fact{id, 0};
      in.read(fact.rank);
      return fact;
    }
    case kFactTag<MemberEnded>: {
      MemberEnded fact{id, 0, {}};
      in.read(fact.rank);
      fact.result = in.result();
      return fact;
    }
    case kFactTag<AttemptStopping>: return AttemptStopping{id, in.kind(StopReason::kUnknown)};
    default: {
      const auto reason = in.kind(AttemptRequeued::Reason::kUnable);
      return AttemptRequeued{id, reason, in.time()};
    }
  }
}

Fact read_task_fact(Reader& in, std::uint8_t tag) {
  switch (tag) {
    case kFactTag<TermStarted>: {
      TermStarted fact;
      in.read(fact.term);
      fact.at = in.time();
      return fact;
    }
    case kFactTag<TasksSubmitted>: return TasksSubmitted{in.submission()};
    case kFactTag<TaskReady>: return TaskReady{TaskId{in.number()}};
    case kFactTag<CancelRequested>: return CancelRequested{TaskId{in.number()}};
    case kFactTag<TaskEnded>: {
      TaskEnded fact;
      in.read(fact.task);
      fact.outcome = in.kind(TaskOutcome::kDependencyFailed);
      fact.at = in.time();
      fact.last = in.maybe_result();
      return fact;
    }
    default: {
      TasksForgotten fact;
      fact.tasks.resize(in.count(kMaxForgotten));
      for (TaskId& id : fact.tasks) in.read(id);
      return fact;
    }
  }
}

}  // namespace

void read_facts(ByteSpan batch, const std::string& where,
                const std::function<void(Fact&&)>& visit) {
  Reader in(batch, where);
  std::shared_ptr<const Submission> shared;
  while (!in.done()) {
    const std::uint8_t tag = in.tag();
    if (tag == kFactTag<TaskKept>) {
      if (!in.flag()) shared = in.submission();
      if (shared == nullptr) in.broken("a task without its submission");
      visit(TaskKept{in.task(shared)});
    } else if (tag >= kFactTag<AttemptStarted> && tag <= kFactTag<AttemptRequeued>) {
      visit(read_attempt_fact(in, tag));
    } else if (tag >= kFactTag<TermStarted> && tag <= kFactTag<TasksForgotten>) {
      visit(read_task_fact(in, tag));
    } else {
      visit(read_worker_fact(in, tag));
    }
  }
}

}  // namespace harmonics::inline in_cluster
