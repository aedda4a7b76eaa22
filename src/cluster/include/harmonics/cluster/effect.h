// What the server must do once the facts that came with it are stored, in this order.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/cluster/fact.h>
#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/message.h>

namespace harmonics::inline in_cluster {

/// A worker that a pipeline's stage could run on.
struct PlanPlace {
  WorkerId worker{};
  WorkerSpec spec{};
  DeviceSet devices{};  ///< That the stage would have.
};

struct Submitted {
  TaskId first{};
  std::uint32_t count = 1;
  bool already = false;  ///< The idempotency key was known: nothing was added.
  std::string advice{};  ///< What to do about a task that no known worker could run; mostly empty.
};
struct Done {};
struct Refusal {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message{};
};
/// To whoever asked.
struct Answer {
  RequestId request{};
  std::variant<Submitted, Done, Refusal> reply{};
};
/// The hello on `connection` is accepted: from now on it is the worker's session `epoch`, and an
/// older session of the worker is over (close it).
struct OpenSession {
  RequestId connection{};
  WorkerId worker{};
  Epoch epoch{};
};
/// Tell the connection why, then close it.
struct RefuseSession {
  RequestId connection{};
  std::string reason{};
};
/// Send it if that session still lives, else drop it: the next hello brings both sides together.
struct SendToWorker {
  WorkerId worker{};
  Epoch epoch{};
  ServerMessage message{};
};
/// Close that session's connection: the lease has ended, or it speaks for an older session. The
/// worker connects and says hello again.
struct CloseSession {
  WorkerId worker{};
  Epoch epoch{};
};
/// Plan the stages of a pipeline for the workers of `places`; answer with PlanMade. Not stored: a
/// server that starts again asks again.
struct AskPlan {
  TaskId task{};
  std::shared_ptr<const Submission> submission{};
  std::vector<PlanPlace> places{};
  std::string running{};  ///< The plan that runs and that a new one must beat; empty: none runs.
};
/// A line for the log: a policy that failed, a worker that fell silent.
struct Note {
  std::string text{};
};
using ServerEffect =
    std::variant<Answer, OpenSession, RefuseSession, SendToWorker, CloseSession, AskPlan, Note>;

/// What a reactor's step hands to the outside.
struct Outbox {
  std::vector<Fact> facts{};
  std::vector<ServerEffect> effects{};
  void clear() {
    facts.clear();
    effects.clear();
  }
};

}  // namespace harmonics::inline in_cluster
