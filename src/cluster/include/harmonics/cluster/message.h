// What server and worker say to each other. Plain values; rpc carries them, sim carries them too.
//
// Within one session messages arrive in order and at most once. Whatever matters is said again in
// the next session: a worker's hello lists every attempt it has a record of, with its result if it
// has ended, until the server has acknowledged the end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/task.h>
#include <harmonics/cluster/worker.h>

namespace harmonics::inline in_cluster {

/// How a process (or the try to start it) ended.
enum class EndKind : std::uint8_t {
  kSucceeded,  ///< Exit status 0.
  kFailed,     ///< Another exit status.
  kSignalled,  ///< By a signal that we did not send.
  kTimedOut,   ///< Stopped at its time limit.
  kStopped,    ///< Stopped because the server said so.
  kLeaseLost,  ///< Stopped by its worker, whose lease had ended.
  kLost,       ///< Nobody knows: supervisor killed, worker gone, its records gone.
  kRefused,    ///< Never started, and that is the task's: no such folder, no such program ...
  kUnable,     ///< Never started, and that is the worker's: its disk is full, no process left ...
};
[[nodiscard]] std::string_view to_string(EndKind kind);

struct EndResult {
  EndKind kind = EndKind::kSucceeded;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::string message{};             ///< For people; at most kMaxTaskTextBytes.
  std::uint64_t cpu_ms = 0;          ///< Of all its processes together; 0: not known.
  std::uint64_t peak_memory_kb = 0;  ///< The most that one of them had (rusage); 0: not known.
  bool operator==(const EndResult&) const = default;
};

/// Why the server stops an attempt.
enum class StopReason : std::uint8_t {
  kCancelled,
  kPreempted,
  kGangPeer,  ///< Another member of its gang ended without success.
  kUnknown,   ///< The server knows of no such live attempt.
};
[[nodiscard]] std::string_view to_string(StopReason reason);

/// What a worker knows of one attempt.
struct AttemptReport {
  AttemptId id{};
  bool launched = false;
  std::optional<EndResult> ended{};
  bool operator==(const AttemptReport&) const = default;
};

// Worker to server.
struct HelloMessage {
  WorkerSpec spec{};
  std::vector<AttemptReport> attempts{};  ///< All that it has a record of.
};
struct HeartbeatMessage {
  std::uint64_t number = 0;  ///< Counted by the worker; comes back in `LeaseMessage`.
};
struct LaunchedMessage {
  AttemptId id{};
};
struct EndedMessage {
  AttemptId id{};
  EndResult result{};
};
using WorkerMessage = std::variant<HelloMessage, HeartbeatMessage, LaunchedMessage, EndedMessage>;

// Server to worker.
struct WelcomeMessage {
  WorkerId worker{};
  std::string name{};
  Nanoseconds lease{};       ///< A heartbeat sent at t, once answered, leases until t + lease.
  Nanoseconds heartbeat{};   ///< How often to send one.
  Nanoseconds stop_grace{};  ///< From TERM to KILL; at the lease's end all must be dead.
  Nanoseconds hold{};        ///< Likewise from t on, for tasks that continue; the lease if shorter.
};
/// A refused hello: name taken, limits passed. The worker tells its user and goes.
struct RefusedMessage {
  std::string reason{};
};
struct LeaseMessage {
  std::uint64_t number = 0;  ///< Of the heartbeat that it answers.
};
/// Where a member of a gang runs; empty if it has ended and its worker is known no more.
struct PeerPlace {
  std::string worker_name{};
  std::string address{};
};
struct StartMessage {
  AttemptId id{};
  std::shared_ptr<const TaskSpec> spec{};
  std::string user{};
  std::uint32_t array_index = 0;
  std::uint32_t gang_rank = 0;
  std::vector<PeerPlace> peers{};  ///< In order of rank; empty unless the task is a gang.
  DeviceSet devices{};
  /// Shared by the members of the gang's attempt; the server's rim fills it in.
  std::string gang_secret{};
  std::string plan{};  ///< Of a pipeline's stages, of which it runs the one of its rank.
};
struct StopMessage {
  AttemptId id{};
  StopReason reason = StopReason::kUnknown;
};
/// The end of an attempt is stored (or was refused): the worker may drop its record.
struct EndAckMessage {
  AttemptId id{};
};
using ServerMessage = std::variant<WelcomeMessage, RefusedMessage, LeaseMessage, StartMessage,
                                   StopMessage, EndAckMessage>;

}  // namespace harmonics::inline in_cluster
