// The worker's side of a session: one connection to the server at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/rpc/client.h>
#include <harmonics/rpc/service.h>

namespace harmonics::inline in_rpc {

/// What a connection brings, in order: messages, then one Closed.
struct LinkSays {
  Epoch epoch;  ///< 0 until the server has opened the session.
  std::vector<ServerMessage> messages;
};
struct LinkClosed {
  std::string reason;
  bool refused = false;  ///< Wrong token or role: trying again does not help.
};
using LinkEvent = std::variant<LinkSays, LinkClosed>;

/// One connection: opens with construction and is over after LinkClosed. `hear` is called by a
/// thread of the link. Members may be called from any thread and never wait for the network; the
/// destructor cuts the connection and waits for the threads.
class WorkerLink {
 public:
  WorkerLink(const ClientOptions& options, std::string output_token,
             std::function<void(LinkEvent)> hear);
  ~WorkerLink();
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  /// Dropped when the connection is over.
  void send(const WorkerMessage& message);
  void report(const ProgressLine& progress);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_rpc
