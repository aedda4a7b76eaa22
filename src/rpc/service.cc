#include <harmonics/rpc/service.h>

#include <atomic>

#include "connection.h"
#include "log_relay.h"
#include "session_call.h"
#include "wire.h"

namespace harmonics {
namespace {

enum class Right { kSubmit, kView, kAdminister };

bool has(const Identity& who, Right right) {
  switch (right) {
    case Right::kSubmit: return who.may_submit || who.may_administer;
    case Right::kView: return who.may_view || who.may_submit || who.may_administer;
    case Right::kAdminister: return who.may_administer;
  }
  return false;
}

std::string_view name_of(Right right) {
  switch (right) {
    case Right::kSubmit: return "submit";
    case Right::kView: return "view";
    case Right::kAdminister: return "admin";
  }
  return "";
}

Caller caller(const Identity& who) { return {who.user, who.may_administer}; }
Viewer viewer(const Identity& who) { return {who.user, who.may_view || who.may_administer}; }

/// Ends a call with what the backend said: a Refusal or the one kind of reply that fits.
template <typename Value, typename Reply>
void finish(grpc::ServerUnaryReactor* call, Reply* out, const ClientReply& reply) {
  if (const Refusal* refusal = std::get_if<Refusal>(&reply)) {
    call->Finish(status_of(refusal->code, refusal->message));
  } else if (const Value* value = std::get_if<Value>(&reply)) {
    encode(*value, *out);
    call->Finish(grpc::Status::OK);
  } else {
    call->Finish(status_of(ErrorCode::kInternal, "the server gave an answer of another kind"));
  }
}

class Door final : public wire::Cluster::CallbackService {
 public:
  Door(ClusterBackend& backend, std::optional<TlsFiles> tls)
      : backend_(backend), tls_(std::move(tls)) {}

  using Context = grpc::CallbackServerContext;
  using Call = grpc::ServerUnaryReactor;

  Call* Submit(Context* context, const wire::TaskSpec* in, wire::SubmitReply* out) override {
    return answer<Submitted>(context, Right::kSubmit, out, [in](const Identity& who) {
      return SubmitRequest{{}, caller(who), decode(*in)};
    });
  }
  Call* Cancel(Context* context, const wire::TaskRef* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kSubmit, out, [in](const Identity& who) {
      return CancelRequest{{}, caller(who), {in->task()}};
    });
  }
  Call* Drain(Context* context, const wire::DrainRequest* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kAdminister, out, [in](const Identity& who) {
      return DrainRequest{{}, caller(who), in->worker(), in->drain()};
    });
  }
  Call* Forget(Context* context, const wire::WorkerRef* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kAdminister, out, [in](const Identity& who) {
      return ForgetRequest{{}, caller(who), in->worker()};
    });
  }
  Call* SetQuota(Context* context, const wire::QuotaRequest* in, wire::Empty* out) override {
    return answer<Done>(context, Right::kAdminister, out, [in](const Identity& who) {
      const Quota quota{in->max_gpus(), in->max_active(), in->max_waiting(),
                        std::max(in->weight(), 1u)};
      return QuotaRequest{{}, caller(who), in->user(), quota};
    });
  }
  Call* ListQuotas(Context* context, const wire::QuotaQuery* in, wire::QuotaList* out) override {
    return answer<std::vector<UserView>>(context, Right::kView, out, [in](const Identity& who) {
      return QuotasQuery{viewer(who), in->user()};
    });
  }
  Call* ListTasks(Context* context, const wire::ListTasksRequest* in,
                  wire::ListTasksReply* out) override {
    return answer<TaskPage>(context, Right::kView, out, [in](const Identity& who) {
      const std::uint32_t limit = in->limit() == 0 ? kMaxTasksPerPage : in->limit();
      return ListTasksQuery{viewer(who),
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
      return TaskQuery{viewer(who), {in->task()}};
    });
  }
  Call* ListWorkers(Context* context, const wire::Empty*, wire::ListWorkersReply* out) override {
    return answer<std::vector<WorkerView>>(context, Right::kView, out,
                                           [](const Identity&) { return WorkersQuery{}; });
  }
  Call* Why(Context* context, const wire::TaskRef* in, wire::WhyReply* out) override {
    return answer<WhyPending>(context, Right::kView, out, [in](const Identity& who) {
      return WhyQuery{viewer(who), {in->task()}};
    });
  }
  Call* Wait(Context* context, const wire::WaitRequest* in, wire::WaitReply* out) override {
    return answer<WaitResult>(context, Right::kView, out, [in](const Identity& who) {
      const auto longest = static_cast<std::uint64_t>(kMaxWaitPerCall.count());
      const auto limit = static_cast<std::int64_t>(std::min(in->timeout_ms(), longest));
      return WaitQuery{viewer(who), {in->task()}, std::chrono::milliseconds(limit)};
    });
  }
  Call* Status(Context* context, const wire::Empty*, wire::StatusReply* out) override {
    return answer<ClusterStatus>(context, Right::kView, out,
                                 [](const Identity&) { return StatusQuery{}; });
  }
  grpc::ServerWriteReactor<wire::LogChunk>* ReadLog(Context* context,
                                                    const wire::LogRequest* in) override {
    const auto who = backend_.identify(token_of(*context));
    if (const auto refused = verdict(who, Right::kView)) return refused_relay(*refused);
    return start_relay(backend_, viewer(*who), *in, {tls_, readers_});
  }
  grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame>* Session(
      Context* context) override {
    const auto who = backend_.identify(token_of(*context));
    const bool allowed = who && who->may_work;
    return start_session(backend_, RequestId{++connections_},
                         allowed ? grpc::Status::OK
                                 : (who ? status_of(ErrorCode::kPermissionDenied,
                                                    "this token does not let anyone work: give the "
                                                    "worker a token with the role 'worker'")
                                        : unknown_token()));
  }

 private:
  static grpc::Status unknown_token() {
    return status_of(ErrorCode::kUnauthenticated,
                     "the server does not know this token: use --token-file with the file that the "
                     "server made (its state folder's 'token', or one of 'server --init')");
  }
  static grpc::Status refusal(const Identity& who, Right right) {
    return status_of(ErrorCode::kPermissionDenied,
                     format("'{}' may not do that: it needs a token with the role '{}'", who.user,
                            name_of(right)));
  }

  /// Nothing: the request may come in.
  std::optional<grpc::Status> verdict(const std::optional<Identity>& who, Right right) {
    if (const auto much = backend_.refuse_rate(who ? who->user : std::string())) {
      return status_of(ErrorCode::kResourceExhausted, *much);
    }
    if (!who) return unknown_token();
    if (!has(*who, right)) return refusal(*who, right);
    return std::nullopt;
  }

  template <typename Value, typename Reply, typename Make>
  Call* answer(Context* context, Right right, Reply* out, Make make) {
    Call* call = context->DefaultReactor();
    const auto who = backend_.identify(token_of(*context));
    if (const auto refused = verdict(who, right)) {
      call->Finish(*refused);
      return call;
    }
    try {
      backend_.ask(make(*who),
                   [call, out](const ClientReply& reply) { finish<Value>(call, out, reply); });
    } catch (const Error& error) {
      call->Finish(status_of(error.code(), error.what()));
    }
    return call;
  }

  ClusterBackend& backend_;
  const std::optional<TlsFiles> tls_;
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<int> readers_{0};
};

}  // namespace

struct ClusterService::Parts {
  Parts(ClusterBackend& backend, const std::optional<TlsFiles>& tls) : door(backend, tls) {}
  Door door;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

ClusterService::ClusterService(const ServiceOptions& options, ClusterBackend& backend)
    : parts_(std::make_unique<Parts>(backend, options.tls)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.address, listening_credentials(options.tls), &parts_->port);
  builder.RegisterService(&parts_->door);
  set_server_limits(builder);
  parts_->server = builder.BuildAndStart();
  if (!parts_->server || parts_->port == 0) {
    fail(ErrorCode::kUnavailable,
         "cannot listen on {}: is another server running there? choose another --port",
         options.address);
  }
}

ClusterService::~ClusterService() {
  parts_->server->Shutdown(std::chrono::system_clock::now());
  parts_->server->Wait();
}

int ClusterService::port() const { return parts_->port; }

}  // namespace harmonics
