#include <harmonics/rpc/client.h>

#include <sstream>

#include <harmonics/rpc/output_fetch.h>

#include "client_parts.h"
#include "submit_row.h"

namespace harmonics::inline in_rpc {

using std::chrono::milliseconds;
using std::chrono::system_clock;

namespace {

/// Of a file that goes over the wire in one call.
constexpr std::uint64_t kArtifactPart = 8 << 20;
constexpr std::size_t kMaxArtifactListBytes = 64 << 20;

wire::TaskRef reference(TaskId id) {
  wire::TaskRef ref;
  ref.set_task(id.value);
  return ref;
}

bool has_port(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos || colon == 0 || colon + 1 == address.size()) return false;
  return address.find_first_not_of("0123456789", colon + 1) == address.npos;
}

}  // namespace

std::vector<std::string> server_addresses(const std::string& list) {
  std::vector<std::string> addresses;
  std::istringstream in(list);
  for (std::string address; std::getline(in, address, ',');) {
    if (address.empty()) continue;
    // gRPC would take a port of its own for a host without one.
    if (!has_port(address)) {
      fail(ErrorCode::kInvalidArgument, "'{}' is not of the form HOST:PORT; a server's port is {}",
           address, "50051 unless --port says otherwise");
    }
    addresses.push_back(address);
  }
  if (addresses.empty()) fail(ErrorCode::kInvalidArgument, "'{}' names no server", list);
  return addresses;
}

ClusterClient::ClusterClient(ClientOptions options) : parts_(std::make_unique<Parts>()) {
  parts_->options = std::move(options);
  for (const std::string& address : server_addresses(parts_->options.server)) {
    auto channel = open_channel(address, parts_->options.tls);
    auto stub = wire::Cluster::NewStub(channel);
    parts_->servers.push_back({std::move(channel), std::move(stub)});
  }
}
ClusterClient::~ClusterClient() = default;

Submitted ClusterClient::submit(const TaskSpec& spec) {
  wire::TaskSpec request;
  encode(spec, request);
  return decode(parts_->call(&wire::Cluster::Stub::AsyncSubmit, request));
}

std::vector<SubmitOutcome> ClusterClient::submit_all(const std::vector<TaskSpec>& specs) {
  parts_->prepare_call();
  std::vector<SubmitOutcome> outcomes(specs.size());
  SubmitRow(*parts_, specs, outcomes).run();
  return outcomes;
}

Submitted ClusterClient::submit_dag(const std::vector<DagRequest::Node>& nodes) {
  wire::TaskDag request;
  for (const DagRequest::Node& node : nodes) {
    wire::DagNode& out = *request.add_nodes();
    encode(node.spec, *out.mutable_spec());
    for (const std::uint32_t before : node.after) out.add_after(before);
  }
  return decode(parts_->call(&wire::Cluster::Stub::AsyncSubmitDag, request));
}

void ClusterClient::set_priority(TaskId task, std::int32_t priority) {
  wire::PriorityRequest request;
  request.set_task(task.value);
  request.set_priority(priority);
  parts_->call(&wire::Cluster::Stub::AsyncSetPriority, request);
}

void ClusterClient::cancel(TaskId task) {
  parts_->call(&wire::Cluster::Stub::AsyncCancel, reference(task));
}

void ClusterClient::drain(const std::string& worker, bool drain) {
  wire::DrainRequest request;
  request.set_worker(worker);
  request.set_drain(drain);
  parts_->call(&wire::Cluster::Stub::AsyncDrain, request);
}

void ClusterClient::forget(const std::string& worker) {
  wire::WorkerRef request;
  request.set_worker(worker);
  parts_->call(&wire::Cluster::Stub::AsyncForget, request);
}

void ClusterClient::set_quota(const std::string& user, const Quota& quota) {
  wire::QuotaRequest request;
  request.set_user(user);
  request.set_max_gpus(quota.max_gpus);
  request.set_max_active(quota.max_active);
  request.set_max_waiting(quota.max_waiting);
  request.set_weight(quota.weight);
  parts_->call(&wire::Cluster::Stub::AsyncSetQuota, request);
}

std::vector<UserView> ClusterClient::quotas(const std::string& user) {
  wire::QuotaQuery request;
  request.set_user(user);
  return decode(parts_->call(&wire::Cluster::Stub::AsyncListQuotas, request));
}

TaskPage ClusterClient::list_tasks(const ListTasksQuery& query) {
  wire::ListTasksRequest request;
  request.set_from(query.from.value);
  request.set_limit(query.limit);
  for (const std::string& state : query.states) request.add_states(state);
  request.set_worker(query.worker);
  request.set_newest_first(query.newest_first);
  request.set_brief(query.brief);
  return decode(parts_->call(&wire::Cluster::Stub::AsyncListTasks, request));
}

TaskView ClusterClient::task(TaskId id) {
  return decode(parts_->call(&wire::Cluster::Stub::AsyncGetTask, reference(id)));
}

WhyPending ClusterClient::why(TaskId id) {
  return decode(parts_->call(&wire::Cluster::Stub::AsyncWhy, reference(id)));
}

WaitResult ClusterClient::wait(TaskId id, milliseconds timeout) {
  static_cast<void>(parts_->await_server());
  const ClientOptions& options = parts_->options;
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    wire::WaitRequest request;
    request.set_task(id.value);
    const milliseconds part = std::clamp(left, milliseconds(0), kMaxWaitPerCall);
    request.set_timeout_ms(static_cast<std::uint64_t>(part.count()));
    // A server that went down may come back, or another take its place.
    const bool there = parts_->reaches_server(system_clock::now() + options.outage);
    wire::WaitReply reply;
    const grpc::Status status = parts_->try_call(&wire::Cluster::Stub::AsyncWait, request, reply,
                                                 system_clock::now() + part + options.timeout);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && there && left > milliseconds(0)) {
      continue;
    }
    parts_->check_status(status);
    if (reply.ended() || left <= milliseconds(0)) return decode(reply);
  }
}

std::vector<WorkerView> ClusterClient::workers() {
  std::vector<WorkerView> workers;
  const auto reply = parts_->call(&wire::Cluster::Stub::AsyncListWorkers, wire::Empty());
  for (const wire::WorkerView& worker : reply.workers()) workers.push_back(decode(worker));
  return workers;
}

ClusterStatus ClusterClient::status() {
  return decode(parts_->call(&wire::Cluster::Stub::AsyncStatus, wire::Empty()));
}

void ClusterClient::read_log(const OutputQuery& query,
                             const std::function<bool(const OutputPiece&)>& take) {
  const auto stream = open_output(query);
  while (const std::optional<OutputPiece> piece = stream->next()) {
    if (!take(*piece)) return;
  }
}

std::vector<ArtifactView> ClusterClient::artifacts(OutputQuery query) {
  query.stream = "artifacts";
  std::string text;
  read_log(query, [&](const OutputPiece& piece) {
    text += piece.data;
    return text.size() <= kMaxArtifactListBytes;
  });
  if (text.size() > kMaxArtifactListBytes) {
    fail(ErrorCode::kResourceExhausted, "the list of artifacts of task {} is longer than {} bytes",
         query.task.value, kMaxArtifactListBytes);
  }
  return parse_artifact_list(text);
}

void ClusterClient::read_artifact(OutputQuery query, const ArtifactView& artifact,
                                  const std::function<void(std::string_view)>& take) {
  query.stream = "artifact";
  query.path = artifact.path;
  query.limit = kArtifactPart;
  query.offset = 0;
  // Part by part, so that each has its own deadline however large the file is.
  while (query.offset < artifact.bytes) {
    const std::uint64_t before = query.offset;
    read_log(query, [&](const OutputPiece& piece) {
      take(piece.data);
      query.offset += piece.data.size();
      return true;
    });
    if (query.offset == before) {
      fail(ErrorCode::kDataLoss, "artifact '{}' of task {} ends after {} of {} bytes",
           artifact.path, query.task.value, before, artifact.bytes);
    }
  }
}

}  // namespace harmonics::inline in_rpc
