#include <harmonics/cluster/fact_codec.h>

#include <concepts>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task_fields.h>

#include "fact_archive.h"
#include "task/task_archive.h"

namespace harmonics::inline in_cluster {
namespace {

constexpr std::size_t kMaxForgotten = 1 << 20;

template <typename Archive>
void fields(Archive& a, Of<Archive, AttemptId>& id) {
  a.number(id.task);
  a.number(id.attempt);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, EndResult>& result) {
  // A flag above the kind says that what it used follows; older stores have none.
  constexpr std::uint64_t kUsed = 16;
  const bool used = result.cpu_ms != 0 || result.peak_memory_kb != 0;
  std::uint64_t kind = static_cast<std::uint64_t>(result.kind) | (used ? kUsed : 0);
  a.word(kind, kUsed | 15);
  if constexpr (Archive::kReads) {
    if ((kind & 15) > static_cast<std::uint64_t>(EndKind::kUnable)) {
      a.broken("a number above its limit");
    }
    result.kind = static_cast<EndKind>(kind & 15);
  }
  a.integer(result.exit_code);
  a.integer(result.signal);
  a.text(result.message);
  if ((kind & kUsed) == 0) return;
  a.number(result.cpu_ms);
  a.number(result.peak_memory_kb);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::optional<EndResult>>& result) {
  bool present = result.has_value();
  a.flag(present);
  if (!present) return;
  if constexpr (Archive::kReads) result.emplace();
  fields(a, *result);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::vector<Member>>& members) {
  a.list(members, kMaxGangWorkers, [&](auto& member) {
    a.number(member.worker);
    a.number(member.devices.bits);
    // The variant stands above the flag; 0, and so nothing, in older stores.
    std::uint64_t marks = std::uint64_t{member.variant} << 1 | (member.launched ? 1 : 0);
    a.word(marks, kMaxVariants << 1 | 1);
    if constexpr (Archive::kReads) {
      member.launched = (marks & 1) != 0;
      member.variant = static_cast<std::uint8_t>(marks >> 1);
    }
    fields(a, member.ended);
  });
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::vector<WorkerId>>& places) {
  a.list(places, kMaxGangWorkers, [&](auto& worker) { a.number(worker); });
}

/// Several flags in one number, the first in its lowest bit.
template <typename Archive, typename... Flags>
void flags(Archive& a, Flags&... each) {
  std::uint64_t bits = 0;
  unsigned place = 0;
  ((bits |= std::uint64_t{each} << place++), ...);
  a.word(bits, (std::uint64_t{1} << sizeof...(each)) - 1);
  place = 0;
  if constexpr (Archive::kReads) ((each = (bits >> place++ & 1) != 0), ...);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::shared_ptr<const Submission>>& shared) {
  const auto walk = [&](auto& submission) {
    a.number(submission.first);
    a.text(submission.user, kMaxTaskNameBytes);
    a.time(submission.at);
    fields(a, submission.spec);
  };
  if constexpr (Archive::kReads) {
    auto submission = std::make_shared<Submission>();
    walk(*submission);
    try {
      check_task(submission->spec);
    } catch (const Error& error) {
      a.broken(error.what());
    }
    shared = std::move(submission);
  } else {
    walk(*shared);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, WorkerRecord>& worker) {
  a.number(worker.id);
  bool described = !worker.spec.resources.empty() || !worker.spec.labels.empty();
  flags(a, worker.draining, worker.spec.no_stages, described);
  a.time(worker.since);
  a.text(worker.spec.name, kMaxWorkerTextBytes);
  a.text(worker.spec.address, kMaxWorkerTextBytes);
  a.text(worker.spec.identity, kMaxWorkerTextBytes);
  a.number(worker.spec.cpus);
  a.number(worker.spec.memory_mb);
  a.list(worker.spec.devices, kMaxDevicesPerWorker, [&](auto& device) {
    a.text(device.name, kMaxWorkerTextBytes);
    a.text(device.model, kMaxWorkerTextBytes);
    a.number(device.memory_mb);
  });
  if (!described) return;
  fields(a, worker.spec.resources);
  fields(a, worker.spec.labels);
}

template <typename Archive>
void fields(Archive&, Of<Archive, Pending>&) {}

template <typename Archive>
void fields(Archive& a, Of<Archive, Waiting>& state) {
  a.number(state.dependencies);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, Delayed>& state) {
  a.time(state.until);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, Active>& state) {
  a.time(state.since);
  // 0: it is not; else one more than the reason.
  std::uint64_t reason = state.stopping ? 1 + static_cast<std::uint64_t>(*state.stopping) : 0;
  a.word(reason, 1 + static_cast<std::uint64_t>(StopReason::kUnknown));
  if constexpr (Archive::kReads) {
    if (reason != 0) state.stopping = static_cast<StopReason>(reason - 1);
  }
  fields(a, state.members);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, Ended>& state) {
  a.kind(state.outcome, TaskOutcome::kDependencyFailed);
  a.time(state.at);
  std::optional<EndResult> last;
  if (state.last) last = *state.last;
  if constexpr (Archive::kReads) {
    fields(a, last);
    state = Ended(state.outcome, state.at, last);
  } else {
    fields(a, std::as_const(last));
  }
}

/// One of a variant's kinds, made by its number and filled by `fill`.
template <typename Variant, typename Fill>
Variant made_kind(const FactInput& in, std::size_t index, Fill&& fill) {
  Variant made;
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    const auto make = [&]<std::size_t kOwn>() {
      if (kOwn != index) return false;
      fill(made.template emplace<kOwn>());
      return true;
    };
    if (!(make.template operator()<kIndex>() || ...)) in.broken("a fact of an unknown kind");
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  return made;
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TaskState>& state) {
  std::uint64_t index = state.index();
  a.word(index, std::variant_size_v<TaskState> - 1);
  if constexpr (Archive::kReads) {
    state = made_kind<TaskState>(a, index, [&](auto& kind) { fields(a, kind); });
  } else {
    std::visit([&](const auto& kind) { fields(a, kind); }, state);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TermStarted>& fact) {
  a.number(fact.term);
  a.time(fact.at);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TasksSubmitted>& fact) {
  fields(a, fact.submission);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, AttemptStarted>& fact) {
  fields(a, fact.id);
  a.time(fact.at);
  fields(a, fact.members);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, AttemptPlanned>& fact) {
  fields(a, fact.id);
  a.text(fact.plan, kMaxPlanBytes);
  a.flag(fact.measures);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, MemberLaunched>& fact) {
  fields(a, fact.id);
  a.number(fact.rank);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, MemberEnded>& fact) {
  fields(a, fact.id);
  a.number(fact.rank);
  fields(a, fact.result);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, AttemptStopping>& fact) {
  fields(a, fact.id);
  a.kind(fact.reason, StopReason::kUnknown);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, AttemptRequeued>& fact) {
  fields(a, fact.id);
  a.kind(fact.reason, AttemptRequeued::Reason::kUnable);
  a.time(fact.not_before);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TaskReady>& fact) {
  a.number(fact.task);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, CancelRequested>& fact) {
  a.number(fact.task);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TaskEnded>& fact) {
  a.number(fact.task);
  a.kind(fact.outcome, TaskOutcome::kDependencyFailed);
  a.time(fact.at);
  fields(a, fact.last);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TasksForgotten>& fact) {
  a.list(fact.tasks, kMaxForgotten, [&](auto& id) { a.number(id); });
}

template <typename Archive>
void fields(Archive& a, Of<Archive, WorkerRegistered>& fact) {
  fields(a, fact.worker);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, WorkerDraining>& fact) {
  a.number(fact.worker);
  a.flag(fact.draining);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, WorkerForgotten>& fact) {
  a.number(fact.worker);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, QuotaSet>& fact) {
  a.text(fact.user, kMaxTaskNameBytes);
  a.number(fact.quota.max_gpus);
  a.number(fact.quota.max_active);
  a.number(fact.quota.max_waiting);
  a.number(fact.quota.weight);
  if constexpr (Archive::kReads) {
    if (fact.quota.weight == 0) a.broken("a weight of zero");
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, LeasesPromised>& fact) {
  a.time(fact.lease);
  a.time(fact.hold);
  if constexpr (Archive::kReads) {
    if (fact.lease < Nanoseconds{} || fact.hold < fact.lease) {
      a.broken("a hold that is shorter than the lease");
    }
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, RunCounted>& fact) {
  a.number(fact.task);
  a.time(fact.ran);
  if constexpr (Archive::kReads) {
    if (fact.ran < Nanoseconds{}) a.broken("a task that ran for less than nothing");
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, PriorityChanged>& fact) {
  a.number(fact.first);
  a.number(fact.count);
  a.integer(fact.priority);
  if constexpr (Archive::kReads) {
    if (fact.count > kMaxArrayTasks || fact.priority > kMaxTaskPriority ||
        fact.priority < -kMaxTaskPriority) {
      a.broken("a priority above its limit");
    }
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, CountersKept>& fact) {
  a.number(fact.term);
  a.number(fact.next_task);
  a.number(fact.next_worker);
}

/// After the submission, or after the word that it is the one before.
template <typename Archive>
void fields(Archive& a, Of<Archive, TaskKept>& fact) {
  auto& task = fact.task;
  a.number(task.id);
  a.number(task.attempts);
  a.number(task.failures);
  a.number(task.losses);
  a.number(task.preemptions);
  bool refused = task.refusals > 0;
  flags(a, task.cancelled, refused);
  if (refused) a.number(task.refusals);
  fields(a, task.state);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, PlacesKept>& fact) {
  a.number(fact.task);
  fields(a, fact.places);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, PastPlacesKept>& fact) {
  fields(a, fact.id);
  fields(a, fact.places);
}

/// The number that stands for a kind of fact in a store: never reuse one, so add kinds to `Fact` at
/// its end.
constexpr std::uint8_t tag_of(std::size_t index) { return static_cast<std::uint8_t>(index + 1); }

constexpr std::size_t kTaskKept = 16;
static_assert(std::is_same_v<std::variant_alternative_t<kTaskKept, Fact>, TaskKept>);

TaskKept read_task(FactInput& in, const std::shared_ptr<const Submission>& submission) {
  TaskKept fact;
  fact.task.submission = submission;
  fields(in, fact);
  const std::uint64_t first = submission->first.value;
  if (fact.task.id.value < first || fact.task.id.value - first >= submission->spec.count()) {
    in.broken("a task outside its submission");
  }
  return fact;
}

}  // namespace

void FactWriter::add(const Fact& fact) {
  FactOutput writer(out_);
  out_.number(tag_of(fact.index()));
  if (const auto* kept = std::get_if<TaskKept>(&fact)) {
    const bool same = shared_ == kept->task.submission;
    writer.flag(same);
    if (!same) {
      shared_ = kept->task.submission;
      fields(writer, shared_);
    }
  }
  std::visit([&](const auto& one) { fields(writer, one); }, fact);
}

Bytes FactWriter::take() {
  shared_.reset();
  Bytes batch = out_.take();
  out_ = {};
  return batch;
}

void read_facts(ByteSpan batch, const std::string& where,
                const std::function<void(Fact&&)>& visit) {
  FactInput in(batch, where);
  std::shared_ptr<const Submission> shared;
  while (!in.done()) {
    const std::uint8_t tag = in.tag();
    if (tag != tag_of(kTaskKept)) {
      visit(made_kind<Fact>(in, tag - std::size_t{1}, [&](auto& fact) { fields(in, fact); }));
      continue;
    }
    bool same = false;
    in.flag(same);
    if (!same) fields(in, shared);
    if (shared == nullptr) in.broken("a task without its submission");
    visit(read_task(in, shared));
  }
}

}  // namespace harmonics::inline in_cluster
