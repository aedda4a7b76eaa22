// What a client holds, and how it makes a call (private to rpc).
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include <harmonics/rpc/client.h>

#include "call_wait.h"
#include "connection.h"
#include "conversion.h"

namespace harmonics::inline in_rpc {

struct ClusterClient::Parts {
  struct Server {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<wire::Cluster::Stub> stub;
  };
  ClientOptions options;
  std::vector<Server> servers;
  std::atomic<std::size_t> present{0};  ///< Counts on; modulo the number of servers.
  std::timed_mutex meeting;
  bool met = false;  ///< Under `meeting`: a server has been waited for.

  /// Before the first call: until a server listens, for `patience` at most. One that listens and
  /// cannot be talked to is not waited for: the call says what is wrong. True: it was not the
  /// first.
  bool await_server();
  void look_for_server();
  /// Before every call but `wait`.
  void prepare_call();

  /// Of the server that leads, which alone listens. Only a connection is tried elsewhere, never a
  /// call: one that broke off may have been heard.
  wire::Cluster::Stub& leader(std::chrono::system_clock::time_point deadline);
  /// Whether some server is connected by then.
  [[nodiscard]] bool reaches_server(std::chrono::system_clock::time_point deadline);

  /// The asynchronous start of a call: `AsyncSubmit` and its like.
  template <typename Request, typename Reply>
  using Start = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (wire::Cluster::Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  /// One call with a fresh context; how it ended.
  template <typename Request, typename Reply>
  grpc::Status try_call(Start<Request, Reply> start, const Request& request, Reply& reply,
                        std::chrono::system_clock::time_point deadline) {
    CallWait wait(options.interrupted);
    grpc::ClientContext context;
    context.set_deadline(deadline);
    add_token(context, options.token);
    grpc::Status status;
    const auto call = (leader(deadline).*start)(&context, request, &wait.queue());
    call->Finish(&reply, &status, &context);
    static_cast<void>(wait.next([&] { context.TryCancel(); }));
    // An answer that came all the same is not thrown away.
    if (wait.left() && !status.ok()) {
      fail(ErrorCode::kCancelled, "interrupted while it waited");
    }
    return status;
  }

  template <typename Request, typename Reply>
  Reply call(Start<Request, Reply> start, const Request& request) {
    prepare_call();
    Reply reply;
    check_status(
        try_call(start, request, reply, std::chrono::system_clock::now() + options.timeout));
    return reply;
  }

  void check_status(const grpc::Status& status) const {
    check(status, options.server, options.tls.has_value());
  }
};

}  // namespace harmonics::inline in_rpc
