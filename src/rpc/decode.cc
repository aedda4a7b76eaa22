#include <algorithm>

#include <harmonics/base/error.h>

#include "conversion.h"

namespace harmonics::inline in_rpc {
namespace {

template <typename Field>
std::vector<std::string> decode_texts(const Field& from) {
  return {from.begin(), from.end()};
}

template <typename Field>
std::vector<DeviceSpec> decode_devices(const Field& from) {
  if (static_cast<std::size_t>(from.size()) > kMaxDevicesPerWorker) {
    fail(ErrorCode::kInvalidArgument, "a worker with {} devices: at most {} are possible",
         from.size(), kMaxDevicesPerWorker);
  }
  std::vector<DeviceSpec> devices;
  for (const auto& device : from) {
    devices.push_back({device.name(), device.model(), device.memory_mb()});
  }
  return devices;
}

template <typename Field>
ResourceCounts decode_counts(const Field& from) {
  ResourceCounts counts;
  for (const wire::Resource& one : from) counts.emplace_back(one.name(), one.count());
  return counts;
}

/// What a worker has beside devices, cores and memory.
template <typename Wire>
void decode_terms(const Wire& from, WorkerSpec& to) {
  to.resources = decode_counts(from.resources());
  for (const wire::Pair& label : from.labels()) to.labels.emplace_back(label.key(), label.value());
}

/// A number that an enumeration with `count` values must have.
template <typename Enum>
Enum decode_enum(std::uint32_t value, std::uint32_t count, const char* what) {
  if (value >= count) fail(ErrorCode::kInvalidArgument, "{} {} is unknown", what, value);
  return static_cast<Enum>(value);
}

constexpr std::uint32_t kEndKinds = static_cast<std::uint32_t>(EndKind::kRefused) + 1;
constexpr std::uint32_t kStopReasons = static_cast<std::uint32_t>(StopReason::kUnknown) + 1;

HelloMessage decode_hello(const wire::Hello& from) {
  HelloMessage hello;
  hello.spec = {from.name(),
                from.address(),
                decode_devices(from.devices()),
                from.cpus(),
                from.memory_mb(),
                from.identity(),
                from.no_stages(),
                {},
                {}};
  decode_terms(from, hello.spec);
  for (const wire::AttemptReport& report : from.attempts()) {
    AttemptReport& out = hello.attempts.emplace_back();
    out.id = decode(report.id());
    out.launched = report.launched();
    if (report.has_ended()) out.ended = decode(report.ended());
  }
  return hello;
}

StartMessage decode_start(const wire::Start& from) {
  StartMessage start;
  start.id = decode(from.id());
  start.spec = std::make_shared<const TaskSpec>(decode(from.spec()));
  start.user = from.user();
  start.array_index = from.array_index();
  start.gang_rank = from.gang_rank();
  start.gang_secret = from.gang_secret();
  for (const wire::PeerPlace& peer : from.peers()) {
    start.peers.push_back({peer.worker_name(), peer.address()});
  }
  start.devices = {from.devices()};
  start.plan = from.plan();
  return start;
}

}  // namespace

Submitted decode(const wire::SubmitReply& from) {
  return {TaskId{from.first_task()}, from.count(), from.already(), from.advice()};
}

EndResult decode(const wire::EndResult& from) {
  EndResult result;
  result.kind =
      decode_enum<EndKind>(static_cast<std::uint32_t>(from.kind()), kEndKinds, "end of a task");
  if (result.kind == EndKind::kRefused && from.unable()) result.kind = EndKind::kUnable;
  result.exit_code = from.exit_code();
  result.signal = from.signal();
  result.message = from.message().substr(0, kMaxTaskTextBytes);
  result.cpu_ms = from.cpu_ms();
  result.peak_memory_kb = from.peak_memory_kb();
  return result;
}

TaskView decode(const wire::TaskView& from) {
  TaskView view;
  view.id = {from.id()};
  view.first = {from.first()};
  view.spec = decode(from.spec());
  view.user = from.user();
  view.state = from.state();
  view.attempts = from.attempts();
  view.failures = from.failures();
  view.losses = from.losses();
  view.preemptions = from.preemptions();
  view.refusals = from.refusals();
  view.submitted = Time(from.submitted_ns());
  view.changed = Time(from.changed_ns());
  for (const wire::MemberView& member : from.members()) {
    view.members.push_back(
        {member.worker(), decode_texts(member.devices()), member.launched(), member.progress()});
  }
  if (from.has_last()) view.last = decode(from.last());
  view.progress = from.progress();
  view.plan = from.plan();
  for (const wire::TaskFile& file : from.files()) {
    view.files.push_back({file.path(), file.bytes(), file.executable()});
  }
  return view;
}

TaskPage decode(const wire::ListTasksReply& from) {
  TaskPage page;
  for (const wire::TaskView& task : from.tasks()) page.tasks.push_back(decode(task));
  page.next = {from.next()};
  page.newest_first = from.newest_first();
  return page;
}

WorkerView decode(const wire::WorkerView& from) {
  WorkerView view;
  view.spec = {from.name(),
               from.address(),
               decode_devices(from.devices()),
               from.cpus(),
               from.memory_mb(),
               {},
               from.no_stages(),
               {},
               {}};
  decode_terms(from, view.spec);
  view.free_resources = decode_counts(from.free_resources());
  view.rooms.assign(from.rooms().begin(), from.rooms().end());
  view.state = from.state();
  view.draining = from.draining();
  view.heard = Time(from.heard_ns());
  for (const std::uint64_t task : from.tasks()) view.tasks.push_back(TaskId{task});
  // A server of an earlier version names all of them and does not count.
  view.task_count = std::max<std::uint64_t>(from.task_count(), view.tasks.size());
  view.free_devices = decode_texts(from.free_devices());
  view.problem = from.problem();
  view.retry = Time(from.retry_ns());
  return view;
}

std::vector<UserView> decode(const wire::QuotaList& from) {
  std::vector<UserView> users;
  for (const wire::UserQuota& user : from.users()) {
    const wire::QuotaRequest& quota = user.quota();
    users.push_back({quota.user(),
                     {quota.max_gpus(), quota.max_active(), quota.max_waiting(), quota.weight()},
                     user.gpus(),
                     user.active(),
                     user.waiting()});
  }
  return users;
}

WhyPending decode(const wire::WhyReply& from) {
  using Reason = WhyPending::Reason;
  WhyPending why{Reason::kNotPending, from.text(), from.before()};
  for (auto reason = Reason::kNotPending; reason <= Reason::kNext;
       reason = static_cast<Reason>(static_cast<int>(reason) + 1)) {
    if (to_string(reason) == from.reason()) why.reason = reason;
  }
  return why;
}

WaitResult decode(const wire::WaitReply& from) {
  return {from.ended(),     from.succeeded(),         from.failed(),
          from.cancelled(), from.dependency_failed(), from.unfinished()};
}

ClusterStatus decode(const wire::StatusReply& from) {
  ClusterStatus status;
  status.version = from.version();
  status.policy = from.policy();
  status.term = from.term();
  status.waiting = from.waiting();
  status.pending = from.pending();
  status.delayed = from.delayed();
  status.active = from.active();
  status.ended = from.ended();
  status.workers = from.workers();
  status.workers_connected = from.workers_connected();
  status.devices = from.devices();
  status.devices_leased = from.devices_leased();
  status.now = Time(from.now_ns());
  return status;
}

AttemptId decode(const wire::AttemptId& from) {
  return {TaskId{from.task()}, AttemptNumber{from.attempt()}};
}

WorkerMessage decode(const wire::WorkerMessage& from) {
  switch (from.kind_case()) {
    case wire::WorkerMessage::kHello: return decode_hello(from.hello());
    case wire::WorkerMessage::kHeartbeat: return HeartbeatMessage{from.heartbeat()};
    case wire::WorkerMessage::kLaunched: return LaunchedMessage{decode(from.launched())};
    case wire::WorkerMessage::kEnded:
      return EndedMessage{decode(from.ended().id()), decode(from.ended().result())};
    default:
      fail(ErrorCode::kInvalidArgument, "a message of a worker that this server does not know");
  }
}

ServerMessage decode(const wire::ServerMessage& from) {
  switch (from.kind_case()) {
    case wire::ServerMessage::kWelcome: {
      const wire::Welcome& welcome = from.welcome();
      return WelcomeMessage{
          WorkerId{welcome.worker()},           welcome.name(),
          Nanoseconds(welcome.lease_ns()),      Nanoseconds(welcome.heartbeat_ns()),
          Nanoseconds(welcome.stop_grace_ns()), Nanoseconds(welcome.hold_ns())};
    }
    case wire::ServerMessage::kRefused: return RefusedMessage{from.refused()};
    case wire::ServerMessage::kLease: return LeaseMessage{from.lease()};
    case wire::ServerMessage::kStart: return decode_start(from.start());
    case wire::ServerMessage::kStop:
      return StopMessage{
          decode(from.stop().id()),
          decode_enum<StopReason>(from.stop().reason(), kStopReasons, "reason of a stop")};
    case wire::ServerMessage::kEndAck: return EndAckMessage{decode(from.end_ack())};
    default:
      fail(ErrorCode::kInvalidArgument, "a message of a server that this worker does not know");
  }
}

}  // namespace harmonics::inline in_rpc
