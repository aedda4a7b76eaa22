#include <harmonics/rpc/client.h>

#include <atomic>
#include <mutex>
#include <sstream>

#include <harmonics/base/json.h>

#include "connection.h"
#include "conversion.h"
#include "server_speech.h"

namespace harmonics::inline in_rpc {

using std::chrono::milliseconds;
using std::chrono::system_clock;

namespace {

/// Between two rounds over servers none of which answers.
constexpr milliseconds kRoundPause(100);
/// So often may a server that listens turn the first connection away before it is not waited for:
/// it may have come up between two looks.
constexpr int kRefusals = 5;
/// After so long without a connection it is said that one is waited for.
constexpr milliseconds kFirstTry(1000);

bool connects(grpc::Channel& channel, system_clock::time_point deadline) {
  for (auto state = channel.GetState(true); state != GRPC_CHANNEL_READY;
       state = channel.GetState(true)) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || !channel.WaitForStateChange(state, deadline)) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct ClusterClient::Parts {
  struct Server {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<wire::Cluster::Stub> stub;
  };
  ClientOptions options;
  std::vector<Server> servers;
  std::atomic<std::size_t> present{0};  ///< Counts on; modulo the number of servers.
  std::mutex meeting;
  bool met = false;  ///< Under `meeting`: a server has been waited for.

  /// Before the first call: until a server listens, for `patience` at most. One that listens and
  /// cannot be talked to is not waited for: the call says what is wrong.
  void await_server() {
    const std::lock_guard lock(meeting);
    if (std::exchange(met, true) || options.patience <= milliseconds(0)) return;
    const auto end = system_clock::now() + options.patience;
    for (int refusals = 0; refusals < kRefusals;) {
      const int before = refusals;
      for (const Server& server : servers) {
        if (connects(*server.channel, std::min(end, system_clock::now() + kFirstTry))) return;
      }
      for (const std::string& address : server_addresses(options.server)) {
        if (speech_of(address, kRoundPause) == Speech::kNothing) continue;
        ++refusals;
        break;
      }
      if (system_clock::now() >= end) return;
      const bool silent = refusals == before;
      if (silent && options.on_wait) std::exchange(options.on_wait, nullptr)();
      servers.front().channel->WaitForStateChange(GRPC_CHANNEL_TRANSIENT_FAILURE,
                                                  system_clock::now() + kRoundPause);
    }
  }

  /// Of the server that leads, which alone listens. Only a connection is tried elsewhere, never a
  /// call: one that broke off may have been heard.
  wire::Cluster::Stub& leader(system_clock::time_point deadline) {
    for (std::size_t tries = 1;; ++tries) {
      const std::size_t at = present.load();
      const Server& server = servers[at % servers.size()];
      if (servers.size() == 1 || connects(*server.channel, deadline)) return *server.stub;
      if (system_clock::now() >= deadline) return *server.stub;
      std::size_t expected = at;
      present.compare_exchange_strong(expected, at + 1);
      if (tries % servers.size() == 0) {
        server.channel->WaitForStateChange(GRPC_CHANNEL_TRANSIENT_FAILURE,
                                           system_clock::now() + kRoundPause);
      }
    }
  }

  /// One call: `method` of the stub with a fresh context.
  template <typename Request, typename Reply>
  Reply call(grpc::Status (wire::Cluster::Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Reply*),
             const Request& request) {
    await_server();
    grpc::ClientContext context;
    const auto deadline = system_clock::now() + options.timeout;
    context.set_deadline(deadline);
    add_token(context, options.token);
    Reply reply;
    check_status((leader(deadline).*method)(&context, request, &reply));
    return reply;
  }

  void check_status(const grpc::Status& status) const {
    check(status, options.server, options.tls.has_value());
  }
};

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
  const auto reply = parts_->call(&wire::Cluster::Stub::Submit, request);
  return {TaskId{reply.first_task()}, reply.count(), reply.already(), reply.advice()};
}

void ClusterClient::cancel(TaskId task) {
  parts_->call(&wire::Cluster::Stub::Cancel, reference(task));
}

void ClusterClient::drain(const std::string& worker, bool drain) {
  wire::DrainRequest request;
  request.set_worker(worker);
  request.set_drain(drain);
  parts_->call(&wire::Cluster::Stub::Drain, request);
}

void ClusterClient::forget(const std::string& worker) {
  wire::WorkerRef request;
  request.set_worker(worker);
  parts_->call(&wire::Cluster::Stub::Forget, request);
}

void ClusterClient::set_quota(const std::string& user, const Quota& quota) {
  wire::QuotaRequest request;
  request.set_user(user);
  request.set_max_gpus(quota.max_gpus);
  request.set_max_active(quota.max_active);
  request.set_max_waiting(quota.max_waiting);
  request.set_weight(quota.weight);
  parts_->call(&wire::Cluster::Stub::SetQuota, request);
}

std::vector<UserView> ClusterClient::quotas(const std::string& user) {
  wire::QuotaQuery request;
  request.set_user(user);
  return decode(parts_->call(&wire::Cluster::Stub::ListQuotas, request));
}

TaskPage ClusterClient::list_tasks(const ListTasksQuery& query) {
  wire::ListTasksRequest request;
  request.set_from(query.from.value);
  request.set_limit(query.limit);
  for (const std::string& state : query.states) request.add_states(state);
  request.set_worker(query.worker);
  request.set_newest_first(query.newest_first);
  request.set_brief(query.brief);
  return decode(parts_->call(&wire::Cluster::Stub::ListTasks, request));
}

TaskView ClusterClient::task(TaskId id) {
  return decode(parts_->call(&wire::Cluster::Stub::GetTask, reference(id)));
}

WhyPending ClusterClient::why(TaskId id) {
  return decode(parts_->call(&wire::Cluster::Stub::Why, reference(id)));
}

WaitResult ClusterClient::wait(TaskId id, milliseconds timeout) {
  parts_->await_server();
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    wire::WaitRequest request;
    request.set_task(id.value);
    const milliseconds part = std::clamp(left, milliseconds(0), kMaxWaitPerCall);
    request.set_timeout_ms(static_cast<std::uint64_t>(part.count()));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(system_clock::now() + part + parts_->options.timeout);
    add_token(context, parts_->options.token);
    wire::WaitReply reply;
    const grpc::Status status = parts_->leader(system_clock::now() + parts_->options.timeout)
                                    .Wait(&context, request, &reply);
    // A server that goes down cuts the call: ask the next one.
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && left > milliseconds(0)) continue;
    parts_->check_status(status);
    if (reply.ended() || left <= milliseconds(0)) return decode(reply);
  }
}

std::vector<WorkerView> ClusterClient::workers() {
  std::vector<WorkerView> workers;
  const auto reply = parts_->call(&wire::Cluster::Stub::ListWorkers, wire::Empty());
  for (const wire::WorkerView& worker : reply.workers()) workers.push_back(decode(worker));
  return workers;
}

ClusterStatus ClusterClient::status() {
  return decode(parts_->call(&wire::Cluster::Stub::Status, wire::Empty()));
}

void ClusterClient::read_log(const OutputQuery& query,
                             const std::function<bool(const OutputPiece&)>& take) {
  parts_->await_server();
  wire::LogRequest request;
  request.set_task(query.task.value);
  request.set_attempt(query.attempt.value);
  request.set_rank(query.rank);
  request.set_stream(query.stream);
  request.set_offset(query.offset);
  request.set_follow(query.follow);
  request.set_path(query.path);
  request.set_limit(query.limit);
  grpc::ClientContext context;
  if (!query.follow) context.set_deadline(system_clock::now() + parts_->options.timeout);
  add_token(context, parts_->options.token);
  const auto reader =
      parts_->leader(system_clock::now() + parts_->options.timeout).ReadLog(&context, request);
  wire::LogChunk chunk;
  bool stopped = false;
  while (!stopped && reader->Read(&chunk)) {
    stopped = !take({chunk.offset(), std::move(*chunk.mutable_data())});
  }
  if (stopped) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!stopped) parts_->check_status(status);
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
  std::vector<ArtifactView> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json entry = Json::parse(line, "the worker's list of artifacts");
    found.push_back(
        {entry.at("path").as_string(), static_cast<std::uint64_t>(entry.at("bytes").as_integer())});
  }
  return found;
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
