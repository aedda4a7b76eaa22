// The worker's decisions: leases, holds, fencing, re-attachment. No thread, clock, process or I/O.
//
// The loop around it, for each event:
//   reactor.handle(event, now, effects)
//   carry out the effects, in order
//   sleep until the next event or reactor.deadline(), then handle(WorkerTick{})
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <harmonics/cluster/ids.h>
#include <harmonics/cluster/message.h>

namespace harmonics::inline in_cluster {

/// An attempt that this worker has a record of on disk.
struct RecoveredAttempt {
  AttemptReport report;
  OnDisconnect on_disconnect = OnDisconnect::kStop;
};

// What the worker's reactor is told.
/// A connection to the server stands; say hello.
struct Connected {};
/// The connection has ended.
struct Disconnected {};
/// A message of the present connection, with the epoch that the server put on it.
struct ServerSays {
  Epoch epoch;
  ServerMessage message;
};
/// The supervisor has written its record and started the process.
struct ProcessLaunched {
  AttemptId id;
};
/// The process is gone, and its whole tree (or it never started: kRefused).
struct ProcessEnded {
  AttemptId id;
  EndResult result;
};
struct WorkerTick {};
using WorkerEvent =
    std::variant<Connected, Disconnected, ServerSays, ProcessLaunched, ProcessEnded, WorkerTick>;

// What the worker must do.
/// Send on the current connection; drop it silently if there is none.
struct SendToServer {
  WorkerMessage message;
};
/// Write the attempt's record durably, then start its supervisor. Answer with ProcessLaunched or
/// ProcessEnded. Never called twice for one attempt.
struct Launch {
  StartMessage start;
  Time lease_end{};
};
/// TERM, then after `grace` KILL, the whole process tree; ProcessEnded says when it is done. May
/// come again with a shorter grace.
struct Stop {
  AttemptId id;
  EndKind as = EndKind::kStopped;  ///< What ProcessEnded should say if the stop ended it.
  Nanoseconds grace{};
};
/// Tell every supervisor when the lease and the hold end now: it must stop its task by itself then
/// (by the lease's end, or the hold's if the task continues), so that tasks of a killed worker end
/// in time too.
struct ExtendLease {
  Time until{};
  Time hold_until{};
};
/// The server has the result: drop the attempt's record.
struct DropRecord {
  AttemptId id;
};
/// Close the connection and connect again, after the rim's usual back-off.
struct Reconnect {
  std::string reason;
};
/// The server refuses this worker: tell the user and end. What runs is left to its supervisors,
/// which stop it when the lease ends.
struct GiveUp {
  std::string reason;
};
using WorkerEffect =
    std::variant<SendToServer, Launch, Stop, ExtendLease, DropRecord, Reconnect, GiveUp>;

/// How many heartbeats may go unanswered before the oldest is forgotten.
inline constexpr std::size_t kMaxUnansweredBeats = 64;

/// One worker. Owned by one thread.
class WorkerReactor {
 public:
  /// `recovered` is what the records on disk say after a restart; `last` what was last handed to
  /// the supervisors (0: nothing).
  WorkerReactor(WorkerSpec spec, std::vector<RecoveredAttempt> recovered, ExtendLease last);

  /// Appends to `effects`. Never throws for what a message says.
  void handle(const WorkerEvent& event, Time now, std::vector<WorkerEffect>& effects);
  /// When a WorkerTick is due even if nothing else happens; kNever if not.
  [[nodiscard]] Time deadline() const;

  [[nodiscard]] const WorkerSpec& spec() const { return spec_; }
  /// 0 while there is no session.
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] Time lease_end() const { return lease_end_; }
  [[nodiscard]] Time hold_end() const { return hold_end_; }
  /// The attempts that it has records of.
  [[nodiscard]] std::vector<AttemptReport> attempts() const;

 private:
  struct Attempt {
    OnDisconnect on_disconnect = OnDisconnect::kStop;
    bool launched = false;
    bool lease_stopped = false;
    bool launch_told = false;  ///< To the server, on the present connection.
    bool end_told = false;
    std::optional<EndResult> ended;
  };
  using Effects = std::vector<WorkerEffect>;

  void on(const Connected&, Time now, Effects& out);
  void on(const Disconnected&, Time now, Effects& out);
  void on(const ServerSays& event, Time now, Effects& out);
  void on(const ProcessLaunched& event, Time now, Effects& out);
  void on(const ProcessEnded& event, Time now, Effects& out);
  void on(const WorkerTick&, Time now, Effects& out);
  void obey(const WelcomeMessage& message, Time now, Effects& out);
  void obey(const RefusedMessage& message, Time now, Effects& out);
  void obey(const LeaseMessage& message, Time now, Effects& out);
  void obey(const StartMessage& message, Time now, Effects& out);
  void obey(const StopMessage& message, Time now, Effects& out);
  void obey(const EndAckMessage& message, Time now, Effects& out);
  void tell(AttemptId id, Attempt& attempt, Effects& out);
  void beat(Time now, Effects& out);
  void stop_at_lease_end(Time now, Effects& out);
  void extend(Time sent, Effects& out);
  [[nodiscard]] Time stop_time(OnDisconnect wish) const;
  [[nodiscard]] Time stop_time(const Attempt& attempt) const;

  WorkerSpec spec_;
  std::map<AttemptId, Attempt> attempts_;
  Epoch epoch_;
  Epoch newest_;  ///< The largest ever seen; what is not larger is an old server's.
  Time lease_end_{};
  Time hold_end_{};
  Nanoseconds lease_{};
  Nanoseconds hold_{};
  Nanoseconds heartbeat_{};
  Nanoseconds grace_ = std::chrono::seconds(5);
  Time hello_sent_{};
  bool leaving_ = false;  ///< The silent connection is being given up.
  Time next_beat_ = kNever;
  std::uint64_t beats_ = 0;
  std::map<std::uint64_t, Time> unanswered_;  ///< Heartbeats of this session: number, when sent.
};

}  // namespace harmonics::inline in_cluster
