#include "submit_row.h"

namespace harmonics::inline in_rpc {

SubmitRow::SubmitRow(ClusterClient::Parts& client, const std::vector<TaskSpec>& specs,
                     std::vector<SubmitOutcome>& outcomes)
    : client_(client),
      specs_(specs),
      outcomes_(outcomes),
      calls_(specs.size()),
      wait_(client.options.interrupted) {}

void SubmitRow::run() {
  std::size_t next = 0;
  while (true) {
    while (next < specs_.size() && under_way_ < kMaxSubmitsAtOnce && !stop_) start(next++);
    if (under_way_ == 0) break;
    const CallWait::Ended ended = wait_.next([this] {
      stop_ = Error(ErrorCode::kCancelled, "interrupted while tasks were handed in");
      for (const auto& call : calls_) {
        if (call) call->context.TryCancel();
      }
    });
    const Call& call = *static_cast<const Call*>(ended.tag);
    take(call);
    calls_[call.at].reset();
    --under_way_;
  }
  for (; next < specs_.size(); ++next) outcomes_[next].error = stop_;
}

void SubmitRow::start(std::size_t at) {
  auto call = std::make_unique<Call>();
  call->at = at;
  const auto deadline = std::chrono::system_clock::now() + client_.options.timeout;
  call->context.set_deadline(deadline);
  add_token(call->context, client_.options.token);
  wire::TaskSpec request;
  encode(specs_[at], request);
  call->reader = client_.leader(deadline).AsyncSubmit(&call->context, request, &wait_.queue());
  call->reader->Finish(&call->reply, &call->status, call.get());
  calls_[at] = std::move(call);
  ++under_way_;
}

void SubmitRow::take(const Call& call) {
  SubmitOutcome& outcome = outcomes_[call.at];
  if (call.status.ok()) {
    outcome.submitted = decode(call.reply);
  } else {
    outcome.error = error_of(call.status);
  }
}

Error SubmitRow::error_of(const grpc::Status& status) {
  const bool away = status.error_code() == grpc::StatusCode::UNAVAILABLE;
  if (stop_ && (away || wait_.left())) return *stop_;
  const ClientOptions& options = client_.options;
  Error error = in_rpc::error_of(status, options.server, options.tls.has_value());
  if (away) stop_ = error;
  return error;
}

}  // namespace harmonics::inline in_rpc
