#include "conversion.h"

namespace harmonics::inline in_rpc {
namespace {

template <typename Field>
void encode_devices(const std::vector<DeviceSpec>& from, Field& to) {
  for (const DeviceSpec& device : from) {
    auto* out = to.Add();
    out->set_name(device.name);
    out->set_model(device.model);
    out->set_memory_mb(device.memory_mb);
  }
}

/// What a worker has beside devices, cores and memory: of a hello, or a view.
template <typename Wire>
void encode_terms(const WorkerSpec& from, Wire& to) {
  for (const auto& [name, count] : from.resources) {
    wire::Resource& resource = *to.add_resources();
    resource.set_name(name);
    resource.set_count(count);
  }
  for (const auto& [key, value] : from.labels) {
    wire::Pair& label = *to.add_labels();
    label.set_key(key);
    label.set_value(value);
  }
}

void encode(AttemptId from, wire::AttemptId& to) {
  to.set_task(from.task.value);
  to.set_attempt(from.attempt.value);
}

struct WorkerMessageEncoder {
  wire::WorkerMessage& to;

  void operator()(const HelloMessage& message) const {
    wire::Hello& hello = *to.mutable_hello();
    hello.set_name(message.spec.name);
    hello.set_address(message.spec.address);
    encode_devices(message.spec.devices, *hello.mutable_devices());
    hello.set_cpus(message.spec.cpus);
    hello.set_memory_mb(message.spec.memory_mb);
    hello.set_no_stages(message.spec.no_stages);
    hello.set_identity(message.spec.identity);
    encode_terms(message.spec, hello);
    for (const AttemptReport& report : message.attempts) {
      wire::AttemptReport& out = *hello.add_attempts();
      encode(report.id, *out.mutable_id());
      out.set_launched(report.launched);
      if (report.ended) harmonics::encode(*report.ended, *out.mutable_ended());
    }
  }
  void operator()(const HeartbeatMessage& message) const { to.set_heartbeat(message.number); }
  void operator()(const LaunchedMessage& message) const {
    encode(message.id, *to.mutable_launched());
  }
  void operator()(const EndedMessage& message) const {
    encode(message.id, *to.mutable_ended()->mutable_id());
    harmonics::encode(message.result, *to.mutable_ended()->mutable_result());
  }
};

struct ServerMessageEncoder {
  wire::ServerMessage& to;

  void operator()(const WelcomeMessage& message) const {
    wire::Welcome& welcome = *to.mutable_welcome();
    welcome.set_worker(message.worker.value);
    welcome.set_name(message.name);
    welcome.set_lease_ns(message.lease.count());
    welcome.set_heartbeat_ns(message.heartbeat.count());
    welcome.set_stop_grace_ns(message.stop_grace.count());
    welcome.set_hold_ns(message.hold.count());
  }
  void operator()(const RefusedMessage& message) const { to.set_refused(message.reason); }
  void operator()(const LeaseMessage& message) const { to.set_lease(message.number); }
  void operator()(const StartMessage& message) const {
    wire::Start& start = *to.mutable_start();
    encode(message.id, *start.mutable_id());
    harmonics::encode(*message.spec, *start.mutable_spec());
    start.set_user(message.user);
    start.set_array_index(message.array_index);
    start.set_gang_rank(message.gang_rank);
    start.set_gang_secret(message.gang_secret);
    for (const PeerPlace& peer : message.peers) {
      wire::PeerPlace& out = *start.add_peers();
      out.set_worker_name(peer.worker_name);
      out.set_address(peer.address);
    }
    start.set_devices(message.devices.bits);
    start.set_plan(message.plan);
  }
  void operator()(const StopMessage& message) const {
    encode(message.id, *to.mutable_stop()->mutable_id());
    to.mutable_stop()->set_reason(static_cast<std::uint32_t>(message.reason));
  }
  void operator()(const EndAckMessage& message) const { encode(message.id, *to.mutable_end_ack()); }
};

}  // namespace

void encode(const EndResult& from, wire::EndResult& to) {
  // Earlier peers know of no inability: to them it is a refusal.
  const bool unable = from.kind == EndKind::kUnable;
  to.set_kind(unable ? wire::END_REFUSED : static_cast<wire::EndKind>(from.kind));
  to.set_unable(unable);
  to.set_exit_code(from.exit_code);
  to.set_signal(from.signal);
  to.set_message(from.message);
  to.set_cpu_ms(from.cpu_ms);
  to.set_peak_memory_kb(from.peak_memory_kb);
}

void encode(const TaskView& from, wire::TaskView& to) {
  to.set_id(from.id.value);
  to.set_first(from.first.value);
  encode(from.spec, *to.mutable_spec());
  to.set_user(from.user);
  to.set_state(from.state);
  to.set_attempts(from.attempts);
  to.set_failures(from.failures);
  to.set_losses(from.losses);
  to.set_preemptions(from.preemptions);
  to.set_refusals(from.refusals);
  to.set_submitted_ns(from.submitted.count());
  to.set_changed_ns(from.changed.count());
  for (const MemberView& member : from.members) {
    wire::MemberView& out = *to.add_members();
    out.set_worker(member.worker);
    for (const std::string& device : member.devices) out.add_devices(device);
    out.set_launched(member.launched);
    out.set_progress(member.progress);
  }
  if (from.last) encode(*from.last, *to.mutable_last());
  to.set_progress(from.progress);
  to.set_plan(from.plan);
  for (const FileView& file : from.files) {
    wire::TaskFile& out = *to.add_files();
    out.set_path(file.path);
    out.set_bytes(file.bytes);
    out.set_executable(file.executable);
  }
}

void encode(const TaskPage& from, wire::ListTasksReply& to) {
  for (const TaskView& task : from.tasks) encode(task, *to.add_tasks());
  to.set_next(from.next.value);
  to.set_newest_first(from.newest_first);
}

void encode(const WorkerView& from, wire::WorkerView& to) {
  to.set_name(from.spec.name);
  to.set_address(from.spec.address);
  encode_devices(from.spec.devices, *to.mutable_devices());
  to.set_cpus(from.spec.cpus);
  to.set_memory_mb(from.spec.memory_mb);
  to.set_no_stages(from.spec.no_stages);
  to.set_state(from.state);
  to.set_draining(from.draining);
  to.set_heard_ns(from.heard.count());
  for (const TaskId task : from.tasks) to.add_tasks(task.value);
  to.set_task_count(from.task_count);
  for (const std::string& device : from.free_devices) to.add_free_devices(device);
  to.set_problem(from.problem);
  to.set_retry_ns(from.retry.count());
  encode_terms(from.spec, to);
  for (const auto& [name, count] : from.free_resources) {
    wire::Resource& resource = *to.add_free_resources();
    resource.set_name(name);
    resource.set_count(count);
  }
  for (const std::uint32_t room : from.rooms) to.add_rooms(room);
}

void encode(const std::vector<WorkerView>& from, wire::ListWorkersReply& to) {
  for (const WorkerView& worker : from) encode(worker, *to.add_workers());
}

void encode(const std::vector<UserView>& from, wire::QuotaList& to) {
  for (const UserView& user : from) {
    wire::UserQuota& out = *to.add_users();
    wire::QuotaRequest& quota = *out.mutable_quota();
    quota.set_user(user.user);
    quota.set_max_gpus(user.quota.max_gpus);
    quota.set_max_active(user.quota.max_active);
    quota.set_max_waiting(user.quota.max_waiting);
    quota.set_weight(user.quota.weight);
    out.set_gpus(user.gpus);
    out.set_active(user.active);
    out.set_waiting(user.waiting);
  }
}

void encode(const Submitted& from, wire::SubmitReply& to) {
  to.set_first_task(from.first.value);
  to.set_count(from.count);
  to.set_already(from.already);
  to.set_advice(from.advice);
}

void encode(const Done&, wire::Empty&) {}

void encode(const WhyPending& from, wire::WhyReply& to) {
  to.set_reason(std::string(to_string(from.reason)));
  to.set_text(from.text);
  to.set_before(from.before);
}

void encode(const WaitResult& from, wire::WaitReply& to) {
  to.set_ended(from.ended);
  to.set_succeeded(from.succeeded);
  to.set_failed(from.failed);
  to.set_cancelled(from.cancelled);
  to.set_dependency_failed(from.dependency_failed);
  to.set_unfinished(from.unfinished);
}

void encode(const ClusterStatus& from, wire::StatusReply& to) {
  to.set_version(from.version);
  to.set_policy(from.policy);
  to.set_term(from.term);
  to.set_waiting(from.waiting);
  to.set_pending(from.pending);
  to.set_delayed(from.delayed);
  to.set_active(from.active);
  to.set_ended(from.ended);
  to.set_workers(from.workers);
  to.set_workers_connected(from.workers_connected);
  to.set_devices(from.devices);
  to.set_devices_leased(from.devices_leased);
  to.set_now_ns(from.now.count());
}

void encode(const OutputQuery& from, wire::LogRequest& to) {
  to.set_task(from.task.value);
  to.set_attempt(from.attempt.value);
  to.set_rank(from.rank);
  to.set_stream(from.stream);
  to.set_offset(from.offset);
  to.set_follow(from.follow);
  to.set_path(from.path);
  to.set_limit(from.limit);
}

void encode(const WorkerMessage& from, wire::WorkerMessage& to) {
  std::visit(WorkerMessageEncoder{to}, from);
}

void encode(const ServerMessage& from, wire::ServerMessage& to) {
  std::visit(ServerMessageEncoder{to}, from);
}

}  // namespace harmonics::inline in_rpc
