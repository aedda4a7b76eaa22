#include <harmonics/cluster/fact_codec.h>

#include <concepts>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task_fields.h>

#include "fact_archive.h"

namespace harmonics::inline in_cluster {
namespace {

constexpr std::size_t kMaxForgotten = 1 << 20;

// A record that was written before it had a field reads with that field's default: such fields
// stand behind a bit that says that they follow.

template <typename Archive, std::integral Number>
void fields(Archive& a, Number& number) {
  if constexpr (std::is_signed_v<Number>) {
    a.integer(number);
  } else {
    a.number(number);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::string>& text) {
  a.text(text);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, std::vector<std::string>>& texts) {
  a.list(texts, kMaxTaskEntries, [&](auto& value) { a.text(value); });
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TextPairs>& pairs) {
  a.list(pairs, kMaxTaskEntries, [&](auto& pair) {
    a.text(pair.first);
    a.text(pair.second);
  });
}

template <typename Archive>
void fields(Archive& a, Of<Archive, AttemptId>& id) {
  a.number(id.task);
  a.number(id.attempt);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, EndResult>& result) {
  a.kind(result.kind, EndKind::kUnable);
  a.integer(result.exit_code);
  a.integer(result.signal);
  a.text(result.message);
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
    a.flag(member.launched);
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
void fields(Archive& a, Of<Archive, std::vector<TaskId>>& tasks) {
  a.list(tasks, kMaxTaskDependencies, [&](auto& id) { a.number(id); });
}

/// The flags of a pipeline stand in one number behind what every pipeline has, the first in its
/// lowest bit; above them the bits of the fields that follow it.
template <typename Archive>
void fields(Archive& a, Of<Archive, PipelineSpec>& pipeline) {
  static const PipelineSpec defaults;
  constexpr auto is_flag = []<typename Member>(Member) {
    return std::is_same_v<Member, bool PipelineSpec::*>;
  };
  std::uint64_t bits = 0;
  std::uint64_t known = 0;
  std::uint64_t next = 1;
  visit_fields(std::type_identity<PipelineSpec>(), [&](const TaskField& field, auto member) {
    if constexpr (is_flag(decltype(member){})) {
      bits |= pipeline.*member ? next : 0;
      known |= std::exchange(next, next << 1);
    } else if (field.bit == 0) {
      fields(a, pipeline.*member);
    } else {
      known |= field.bit;
      if (pipeline.*member != defaults.*member) bits |= field.bit;
    }
  });
  a.word(bits);
  if constexpr (Archive::kReads) {
    if ((bits & ~known) != 0) a.broken("a pipeline with a field of a later version");
  }
  std::uint64_t flags = bits;
  visit_fields(std::type_identity<PipelineSpec>(), [&](const TaskField& field, auto member) {
    if constexpr (!is_flag(decltype(member){})) {
      if ((bits & field.bit) != 0) fields(a, pipeline.*member);
    } else if constexpr (Archive::kReads) {
      pipeline.*member = (flags & 1) != 0;
      flags >>= 1;
    }
  });
  if constexpr (Archive::kReads) lift_old_settings(pipeline);
}

template <typename Archive>
void fields(Archive& a, Of<Archive, MaybePipeline>& pipeline) {
  if constexpr (Archive::kReads) {
    PipelineSpec spec;
    fields(a, spec);
    pipeline = std::move(spec);
  } else {
    fields(a, *pipeline);
  }
}

template <typename Archive>
void fields(Archive& a, Of<Archive, TaskFiles>& files) {
  const auto each = [&](auto& file) {
    a.text(file.path);
    a.text(file.data, kMaxTaskFileBytes);
    a.flag(file.executable);
  };
  if constexpr (Archive::kReads) {
    std::vector<TaskFile> read;
    a.list(read, kMaxTaskFiles, each);
    files = std::move(read);
  } else {
    a.list(files.all(), kMaxTaskFiles, each);
  }
}

// What a worker does without the server stands among the bits of the fields that may follow.
constexpr std::uint64_t kStaysForever = 1;
constexpr std::uint64_t kContinues = 8;

std::uint64_t wish_bits(OnDisconnect wish) {
  return wish == OnDisconnect::kForever    ? kStaysForever
         : wish == OnDisconnect::kContinue ? kContinues
                                           : 0;
}

OnDisconnect wish_of(const FactInput& in, std::uint64_t bits) {
  if ((bits & kStaysForever) != 0 && (bits & kContinues) != 0) {
    in.broken("a task that continues in two ways");
  }
  if ((bits & kStaysForever) != 0) return OnDisconnect::kForever;
  return (bits & kContinues) != 0 ? OnDisconnect::kContinue : OnDisconnect::kStop;
}

/// First what every task has, then a number with the bits of the rest, then the fields of those
/// that are set, from the lowest bit on. A field that is not there keeps its default.
template <typename Archive>
void fields(Archive& a, Of<Archive, TaskSpec>& spec) {
  static const TaskSpec defaults;
  std::uint64_t known = kStaysForever | kContinues;
  std::uint64_t bits = wish_bits(spec.on_disconnect);
  visit_fields(std::type_identity<TaskSpec>(), [&](const TaskField& field, auto member) {
    if constexpr (!std::is_same_v<decltype(member), OnDisconnect TaskSpec::*>) {
      known |= field.bit;
      if (field.bit == 0) {
        fields(a, spec.*member);
      } else if (spec.*member != defaults.*member) {
        bits |= field.bit;
      }
    }
  });
  a.word(bits);
  if constexpr (Archive::kReads) {
    if ((bits & ~known) != 0) a.broken("a task with a field of a later version");
    spec.on_disconnect = wish_of(a, bits);
  }
  for (std::uint64_t bit = 1; bit != 0 && bit <= bits; bit <<= 1) {
    if ((bits & bit) == 0) continue;
    visit_fields(std::type_identity<TaskSpec>(), [&](const TaskField& field, auto member) {
      if constexpr (!std::is_same_v<decltype(member), OnDisconnect TaskSpec::*>) {
        if (field.bit == bit) fields(a, spec.*member);
      }
    });
  }
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
  flags(a, worker.draining, worker.spec.no_stages);
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
