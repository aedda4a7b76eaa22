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
struct LineSays {
  Epoch epoch;  ///< 0 until the server has opened the session.
  std::vector<ServerMessage> messages;
};
struct LineClosed {
  std::string reason;
  bool refused = false;  ///< Wrong token or role: trying again does not help.
};
using LineEvent = std::variant<LineSays, LineClosed>;

/// One connection: opens with construction and is over after LineClosed. `hear` is called by a
/// thread of the line. Members may be called from any thread and never wait for the network; the
/// destructor cuts the connection and waits for the threads.
class WorkerLine {
 public:
  WorkerLine(const ClientOptions& options, std::string output_token,
             std::function<void(LineEvent)> hear);
  ~WorkerLine();
  WorkerLine(const WorkerLine&) = delete;
  WorkerLine& operator=(const WorkerLine&) = delete;

  /// Dropped when the connection is over.
  void send(const WorkerMessage& message);
  void report(const ProgressLine& progress);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_rpc
