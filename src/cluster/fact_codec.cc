#include <harmonics/cluster/fact_codec.h>

#include "fact_bytes.h"

namespace harmonics::inline in_cluster {
namespace {

// One overload per kind of fact; the reading half is its mirror (fact_codec_read.cc).
class Writer {
 public:
  explicit Writer(ByteWriter& out) : out_(out) {}

  void number(std::uint64_t value) {
    while (value >= 0x80) {
      out_.number(static_cast<std::uint8_t>(value | 0x80));
      value >>= 7;
    }
    out_.number(static_cast<std::uint8_t>(value));
  }
  /// Small negative numbers stay short.
  void integer(std::int64_t value) {
    number(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }
  void time(Time value) { integer(value.count()); }
  void text(std::string_view value) {
    number(value.size());
    out_.raw(bytes_of(value));
  }
  void texts(const std::vector<std::string>& values) {
    number(values.size());
    for (const std::string& value : values) text(value);
  }
  void pairs(const TextPairs& values) {
    number(values.size());
    for (const auto& [key, value] : values) {
      text(key);
      text(value);
    }
  }
  void attempt(AttemptId id) {
    number(id.task.value);
    number(id.attempt.value);
  }
  void result(const EndResult& result) {
    number(static_cast<std::uint64_t>(result.kind));
    integer(result.exit_code);
    integer(result.signal);
    text(result.message);
  }
  void maybe_result(const EndResult* result_or_null) {
    number(result_or_null != nullptr ? 1 : 0);
    if (result_or_null != nullptr) result(*result_or_null);
  }
  void members(const std::vector<Member>& members) {
    number(members.size());
    for (const Member& member : members) {
      number(member.worker.value);
      number(member.devices.bits);
      number(member.launched ? 1 : 0);
      maybe_result(member.ended ? &*member.ended : nullptr);
    }
  }
  void spec(const TaskSpec& spec) {
    text(spec.name);
    number(spec.required_gpus);
    number(spec.min_gpu_memory_mb);
    pairs(spec.params);
    texts(spec.command);
    pairs(spec.env);
    text(spec.working_dir);
    number(spec.cpus);
    number(spec.memory_mb);
    number(spec.timeout_s);
    number(spec.max_retries);
    integer(spec.priority);
    number(spec.gang);
    number(spec.array);
    number(spec.depends_on.size());
    for (const TaskId id : spec.depends_on) number(id.value);
    text(spec.idempotency_key);
    texts(spec.artifacts);
    // The first bit is for ever, the second says that a pipeline follows, the third that a limit of
    // losses does, the fourth that it continues, the seventh that files follow.
    const bool losses = spec.max_losses != TaskSpec{}.max_losses;
    number((spec.on_disconnect == OnDisconnect::kForever ? 1U : 0U) | (spec.pipeline ? 2U : 0U) |
           (losses ? 4U : 0U) | (spec.on_disconnect == OnDisconnect::kContinue ? 8U : 0U) |
           (spec.files.empty() ? 0U : 64U));
    if (spec.pipeline) pipeline(*spec.pipeline);
    if (losses) number(spec.max_losses);
    if (!spec.files.empty()) files(spec.files.all());
  }
  void files(std::span<const TaskFile> files) {
    number(files.size());
    for (const TaskFile& file : files) {
      text(file.path);
      text(file.data);
      number(file.executable ? 1 : 0);
    }
  }
  void pipeline(const PipelineSpec& pipeline) {
    text(pipeline.model);
    text(pipeline.graph);
    number(pipeline.stages);
    pairs(pipeline.bindings);
    pairs(pipeline.settings);
    text(pipeline.checkpoint);
    number(pipeline.checkpoint_every);
    number((pipeline.profile ? 1U : 0U) | (pipeline.trace ? 2U : 0U) |
           (pipeline.elastic ? 4U : 0U) | (pipeline.secure ? 8U : 0U));
  }
  void submission(const Submission& submission) {
    number(submission.first.value);
    text(submission.user);
    time(submission.at);
    spec(submission.spec);
  }

  void fact(const TermStarted& fact) {
    number(fact.term.value);
    time(fact.at);
  }
  void fact(const TasksSubmitted& fact) { submission(*fact.submission); }
  void fact(const AttemptStarted& fact) {
    attempt(fact.id);
    time(fact.at);
    members(fact.members);
  }
  void fact(const AttemptPlanned& fact) {
    attempt(fact.id);
    text(fact.plan);
    number(fact.measures ? 1 : 0);
  }
  void fact(const MemberLaunched& fact) {
    attempt(fact.id);
    number(fact.rank);
  }
  void fact(const MemberEnded& fact) {
    attempt(fact.id);
    number(fact.rank);
    result(fact.result);
  }
  void fact(const AttemptStopping& fact) {
    attempt(fact.id);
    number(static_cast<std::uint64_t>(fact.reason));
  }
  void fact(const AttemptRequeued& fact) {
    attempt(fact.id);
    number(static_cast<std::uint64_t>(fact.reason));
    time(fact.not_before);
  }
  void fact(const TaskReady& fact) { number(fact.task.value); }
  void fact(const CancelRequested& fact) { number(fact.task.value); }
  void fact(const TaskEnded& fact) {
    number(fact.task.value);
    number(static_cast<std::uint64_t>(fact.outcome));
    time(fact.at);
    maybe_result(fact.last ? &*fact.last : nullptr);
  }
  void fact(const TasksForgotten& fact) {
    number(fact.tasks.size());
    for (const TaskId id : fact.tasks) number(id.value);
  }
  void fact(const WorkerRegistered& fact) {
    const WorkerRecord& worker = fact.worker;
    number(worker.id.value);
    number(worker.draining ? 1 : 0);
    time(worker.since);
    text(worker.spec.name);
    text(worker.spec.address);
    text(worker.spec.identity);
    number(worker.spec.cpus);
    number(worker.spec.memory_mb);
    number(worker.spec.devices.size());
    for (const DeviceSpec& device : worker.spec.devices) {
      text(device.name);
      text(device.model);
      number(device.memory_mb);
    }
  }
  void fact(const WorkerDraining& fact) {
    number(fact.worker.value);
    number(fact.draining ? 1 : 0);
  }
  void fact(const WorkerForgotten& fact) { number(fact.worker.value); }
  void fact(const QuotaSet& fact) {
    text(fact.user);
    number(fact.quota.max_gpus);
    number(fact.quota.max_active);
    number(fact.quota.max_waiting);
    number(fact.quota.weight);
  }
  void fact(const LeasesPromised& fact) {
    time(fact.lease);
    time(fact.hold);
  }
  void fact(const CountersKept& fact) {
    number(fact.term.value);
    number(fact.next_task.value);
    number(fact.next_worker.value);
  }
  /// After the submission, or after the word that it is the one before.
  void fact(const TaskKept& fact) {
    const TaskRecord& task = fact.task;
    number(task.id.value);
    number(task.attempts.value);
    number(task.failures);
    number(task.losses);
    number(task.preemptions);
    // The second bit says that refusals follow.
    number((task.cancelled ? 1U : 0U) | (task.refusals > 0 ? 2U : 0U));
    if (task.refusals > 0) number(task.refusals);
    number(task.state.index());
    std::visit([&](const auto& state) { write_state(state); }, task.state);
  }
  void fact(const PlacesKept& fact) {
    number(fact.task.value);
    places(fact.places);
  }
  void fact(const PastPlacesKept& fact) {
    attempt(fact.id);
    places(fact.places);
  }

 private:
  void places(const std::vector<WorkerId>& places) {
    number(places.size());
    for (const WorkerId worker : places) number(worker.value);
  }
  void write_state(const Pending&) {}
  void write_state(const Waiting& state) { number(state.dependencies); }
  void write_state(const Delayed& state) { time(state.until); }
  void write_state(const Active& state) {
    time(state.since);
    number(state.stopping ? 1 + static_cast<std::uint64_t>(*state.stopping) : 0);
    members(state.members);
  }
  void write_state(const Ended& state) {
    number(static_cast<std::uint64_t>(state.outcome));
    time(state.at);
    maybe_result(state.last.get());
  }

  ByteWriter& out_;
};

}  // namespace

void FactWriter::add(const Fact& fact) {
  Writer writer(out_);
  std::visit(
      [&]<typename Kind>(const Kind& one) {
        out_.number(static_cast<std::uint8_t>(kFactTag<Kind>));
        if constexpr (std::is_same_v<Kind, TaskKept>) {
          const bool same = shared_ == one.task.submission;
          writer.number(same ? 1 : 0);
          if (!same) {
            shared_ = one.task.submission;
            writer.submission(*shared_);
          }
        }
        writer.fact(one);
      },
      fact);
}

Bytes FactWriter::take() {
  shared_.reset();
  Bytes batch = out_.take();
  out_ = {};
  return batch;
}

}  // namespace harmonics::inline in_cluster
