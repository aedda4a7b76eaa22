#include <harmonics/rpc/service.h>

#include <atomic>

#include <harmonics/base/log.h>

#include "connection.h"
#include "conversion.h"
#include "doorkeeper.h"
#include "output_relay.h"
#include "session_call.h"

namespace harmonics::inline in_rpc {
namespace {

constexpr std::string_view kUser = "user/";
/// One descriptor in so many is not for workers.
constexpr std::uint64_t kShareOfClients = 4;

/// "user/ann", "worker", "worker/gpu-1.example", "client", "server": whom the caller's certificate
/// is for; empty: there is none, or it was made before certificates said so.
std::string certified(const grpc::ServerContextBase& context) {
  constexpr std::string_view kScheme = "harmonics://";
  const auto peer = context.auth_context();
  if (!peer) return {};
  for (const grpc::string_ref& found : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    const std::string_view uri(found.data(), found.size());
    if (uri.starts_with(kScheme)) return std::string(uri.substr(kScheme.size()));
  }
  return {};
}

bool is_workers(const std::string& certificate) {
  return certificate == "worker" || certificate.starts_with("worker/");
}

template <typename Reply>
void hide_what_is_anothers(const Identity& who, Reply& reply) {
  if constexpr (requires { hide_from(who, reply); }) hide_from(who, reply);
}

/// Ends a call with what the backend said: a Refusal or the one kind of reply that fits.
template <typename Value, typename Reply>
void finish(grpc::ServerUnaryReactor* call, Reply* out, ClientReply reply, const Identity& who) {
  if (const Refusal* refusal = std::get_if<Refusal>(&reply)) {
    call->Finish(status_of(refusal->code, refusal->message));
  } else if (Value* value = std::get_if<Value>(&reply)) {
    hide_what_is_anothers(who, *value);
    encode(*value, *out);
    call->Finish(grpc::Status::OK);
  } else {
    call->Finish(status_of(ErrorCode::kInternal, "the server gave an answer of another kind"));
  }
}

class FrontDoor final : public wire::Cluster::CallbackService {
 public:
  FrontDoor(ClusterBackend& backend, const ServiceOptions& options, Doorkeeper& doorkeeper)
      : backend_(backend),
        doorkeeper_(doorkeeper),
        tls_(options.tls),
        max_priority_(options.max_priority),
        max_sessions_(options.max_sessions != 0
                          ? options.max_sessions
                          : options.descriptors - options.descriptors / kShareOfClients) {}

  using Context = grpc::CallbackServerContext;
  using Call = grpc::ServerUnaryReactor;

  Call* Submit(Context* context, const wire::TaskSpec* in, wire::SubmitReply* out) override {
    return answer<Submitted>(context, Right::kSubmit, out, [this, in](const Identity& who) {
      SubmitRequest request{{}, caller_of(who), decode(*in)};
      check_priority(who, request.spec.priority, max_priority_);
      return request;
    });
  }
  Call* SubmitDag(Context* context, const wire::TaskDag* in, wire::SubmitReply* out) override {
    return answer<Submitted>(context, Right::kSubmit, out, [this, in](const Identity& who) {
      DagRequest request{{}, caller_of(who), {}};
      for (const wire::DagNode& node : in->nodes()) {
        request.nodes.push_back({decode(node.spec()), {node.after().begin(), node.after().end()}});
        check_priority(who, request.nodes.back().spec.priority, max_priority_);
      }
      return request;
    });
  }
  Call* SetPriority(Context* context, const wire::PriorityRequest* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kSubmit, out, [this, in](const Identity& who) {
      check_priority(who, in->priority(), max_priority_);
      return PriorityRequest{{}, caller_of(who), {in->task()}, in->priority()};
    });
  }
  Call* Cancel(Context* context, const wire::TaskRef* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kSubmit, out, [in](const Identity& who) {
      return CancelRequest{{}, caller_of(who), {in->task()}};
    });
  }
  Call* Drain(Context* context, const wire::DrainRequest* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kAdminister, out, [in](const Identity& who) {
      return DrainRequest{{}, caller_of(who), in->worker(), in->drain()};
    });
  }
  Call* Forget(Context* context, const wire::WorkerRef* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kAdminister, out, [in](const Identity& who) {
      return ForgetRequest{{}, caller_of(who), in->worker()};
    });
  }
  Call* SetQuota(Context* context, const wire::QuotaRequest* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kAdminister, out, [in](const Identity& who) {
      const Quota quota{in->max_gpus(), in->max_active(), in->max_waiting(),
                        std::max(in->weight(), 1u)};
      return QuotaRequest{{}, caller_of(who), in->user(), quota};
    });
  }
  Call* ListQuotas(Context* context, const wire::QuotaQuery* in, wire::QuotaList* out) override {
    return answer<std::vector<UserView>>(context, Right::kView, out, [in](const Identity& who) {
      return QuotasQuery{viewer_of(who), in->user()};
    });
  }
  Call* ListTasks(Context* context, const wire::ListTasksRequest* in,
                  wire::ListTasksReply* out) override {
    return answer<TaskPage>(context, Right::kView, out, [in](const Identity& who) {
      const std::uint32_t limit = in->limit() == 0 ? kMaxTasksPerPage : in->limit();
      return ListTasksQuery{viewer_of(who),
                            {in->from()},
                            std::min(limit, kMaxTasksPerPage),
                            {in->states().begin(), in->states().end()},
                            in->worker(),
                            in->newest_first(),
                            in->brief()};
    });
  }
  Call* GetTask(Context* context, const wire::TaskRef* in, wire::TaskView* out) override {
    return answer<TaskView>(context, Right::kView, out, [in](const Identity& who) {
      return TaskQuery{viewer_of(who), {in->task()}};
    });
  }
  Call* ListWorkers(Context* context, const wire::Empty*, wire::ListWorkersReply* out) override {
    return answer<std::vector<WorkerView>>(context, Right::kView, out,
                                           [](const Identity&) { return WorkersQuery{}; });
  }
  Call* Why(Context* context, const wire::TaskRef* in, wire::WhyReply* out) override {
    return answer<WhyPending>(context, Right::kView, out, [in](const Identity& who) {
      return WhyQuery{viewer_of(who), {in->task()}};
    });
  }
  Call* Wait(Context* context, const wire::WaitRequest* in, wire::WaitReply* out) override {
    return answer<WaitResult>(context, Right::kView, out, [in](const Identity& who) {
      const auto longest = static_cast<std::uint64_t>(kMaxWaitPerCall.count());
      const auto limit = static_cast<std::int64_t>(std::min(in->timeout_ms(), longest));
      return WaitQuery{viewer_of(who), {in->task()}, std::chrono::milliseconds(limit)};
    });
  }
  Call* Status(Context* context, const wire::Empty*, wire::StatusReply* out) override {
    return answer<ClusterStatus>(context, Right::kView, out,
                                 [](const Identity&) { return StatusQuery{}; });
  }
  grpc::ServerWriteReactor<wire::LogChunk>* ReadLog(Context* context,
                                                    const wire::LogRequest* in) override {
    const auto who = identify(*context);
    if (const auto refused = verdict(*context, who, Right::kView)) return refused_relay(*refused);
    return start_relay(backend_, viewer_of(*who), *in, {tls_, readers_});
  }
  grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame>* Session(
      Context* context) override {
    const grpc::Status verdict = may_work(*context);
    return start_session(backend_, RequestId{++connections_}, verdict.ok() ? has_room() : verdict,
                         sessions_);
  }

 private:
  static grpc::Status unknown_token() {
    return status_of(ErrorCode::kUnauthenticated,
                     "the server does not know this token: use --token-file with the file that the "
                     "server made (its state folder's 'token', or one of 'server --init')");
  }
  static grpc::Status refusal(const Identity& who, Right right) {
    return status_of(ErrorCode::kPermissionDenied, missing_right(who, right));
  }

  grpc::Status may_work(const Context& context) {
    const auto who = identify(context);
    if (!who) return unknown_token();
    if (!who->may_work) {
      return status_of(ErrorCode::kPermissionDenied,
                       "this token does not let anyone work: give the worker a token with the role "
                       "'worker'");
    }
    const std::string certificate = certified(context);
    if (!certificate.empty() && !is_workers(certificate)) {
      return status_of(ErrorCode::kPermissionDenied,
                       format("this certificate is for '{}', not for a worker", certificate));
    }
    return grpc::Status::OK;
  }

  /// Sessions of workers last, so they must not take every descriptor: clients need some.
  grpc::Status has_room() {
    if (sessions_ < max_sessions_) {
      said_full_ = false;
      return grpc::Status::OK;
    }
    const std::string text = format(
        "{} workers are connected, and the rest of the files that the server may open is kept for "
        "clients: raise LimitNOFILE of its unit, or ulimit -n",
        max_sessions_);
    if (!said_full_.exchange(true)) log_warn("rpc", "turning workers away: {}", text);
    return status_of(ErrorCode::kResourceExhausted, text);
  }

  /// Nothing: the request may come in.
  std::optional<grpc::Status> verdict(const Context& context, const std::optional<Identity>& who,
                                      Right right) {
    if (const auto much = backend_.refuse_rate(who ? who->user : std::string())) {
      return status_of(ErrorCode::kResourceExhausted, *much);
    }
    if (!who) return unknown_token();
    const std::string certificate = certified(context);
    if (is_workers(certificate)) {
      return status_of(ErrorCode::kPermissionDenied,
                       "this certificate is a worker's, which may only work: use one of a client");
    }
    if (certificate.starts_with(kUser) && certificate.substr(kUser.size()) != who->user) {
      return status_of(
          ErrorCode::kPermissionDenied,
          format("the certificate is of user '{}' and the token of '{}': use one's own",
                 certificate.substr(kUser.size()), who->user));
    }
    if (!has_right(*who, right)) return refusal(*who, right);
    return std::nullopt;
  }

  template <typename Value, typename Reply, typename Make>
  Call* answer(Context* context, Right right, Reply* out, Make make) {
    Call* call = context->DefaultReactor();
    const auto who = identify(*context);
    if (const auto refused = verdict(*context, who, right)) {
      call->Finish(*refused);
      return call;
    }
    try {
      backend_.ask(make(*who), [call, out, who = *who](ClientReply reply) {
        finish<Value>(call, out, std::move(reply), who);
      });
    } catch (const Error& error) {
      call->Finish(status_of(error.code(), error.what()));
    }
    return call;
  }

  /// Who shows that token; somebody who is known may stay.
  std::optional<Identity> identify(const Context& context) {
    auto who = backend_.identify(token_of(context));
    if (who) doorkeeper_.welcome(context.peer());
    return who;
  }

  ClusterBackend& backend_;
  Doorkeeper& doorkeeper_;
  const std::optional<TlsFiles> tls_;
  const std::int32_t max_priority_;
  const std::uint64_t max_sessions_;
  std::atomic<std::uint64_t> sessions_{0};
  std::atomic<bool> said_full_{false};
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<int> readers_{0};
};

}  // namespace

struct ClusterService::Parts {
  Parts(ClusterBackend& backend, const ServiceOptions& options)
      : doorkeeper(options.address, options.descriptors), door(backend, options, doorkeeper) {}
  Doorkeeper doorkeeper;
  FrontDoor door;
  std::unique_ptr<grpc::Server> server;
};

ClusterService::ClusterService(const ServiceOptions& options, ClusterBackend& backend)
    : parts_(std::make_unique<Parts>(backend, options)) {
  using Builder = grpc::ServerBuilder::experimental_type;
  grpc::ServerBuilder builder;
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      Builder::ExternalConnectionType::FROM_FD, listening_credentials(options.tls, Door::kServer));
  builder.RegisterService(&parts_->door);
  set_server_limits(builder);
  parts_->server = builder.BuildAndStart();
  if (!parts_->server) {
    fail(ErrorCode::kUnavailable, "gRPC does not start: are the files of --tls whole?");
  }
  parts_->doorkeeper.open(std::move(acceptor));
}

ClusterService::~ClusterService() {
  parts_->doorkeeper.close();
  parts_->server->Shutdown(std::chrono::system_clock::now());
  parts_->server->Wait();
}

int ClusterService::port() const { return parts_->doorkeeper.port(); }

}  // namespace harmonics::inline in_rpc
