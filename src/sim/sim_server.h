// A server process: the shipped reactor in a loop that can be killed at any point.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <harmonics/cluster/reactor.h>
#include <harmonics/store/store.h>

#include "witness.h"
#include "world.h"

namespace harmonics::inline in_sim {

/// Bugs that a simulation can be given, to see that it notices.
enum class Plant {
  kNone,
  kImpatientServer,   ///< Gives leases up early.
  kActBeforeStoring,  ///< Answers and sends before the facts are durable.
  kDeafSupervisor,    ///< Lets a task run on when the lease has ended.
  kEarlyDrop,         ///< A worker drops an attempt's record before the end is acknowledged.
  kLongHold,          ///< Lets workers hold their tasks for longer than it waits for them.
  kUncheckedLead,     ///< A deposed server answers heartbeats without asking whether it leads.
};

/// What a connection or a client sees of a server.
struct ServerSide {
  /// To the worker on that connection.
  std::function<void(RequestId connection, Epoch, const ServerMessage&)> send;
  std::function<void(RequestId connection)> close;
  std::function<void(const Answer&)> answer;
};

class SimServer {
 public:
  struct Setup {
    World& world;
    Witness& witness;
    std::shared_ptr<MemoryDisk> disk;
    WorkloadPolicy& policy;
    ServerOptions options;
    double store_faults = 0;
    Plant plant = Plant::kNone;
    /// Cleared when the process has died of its store; whoever minds it starts another.
    std::function<void()> died;
  };
  SimServer(const Setup& setup, ServerSide side);

  [[nodiscard]] bool alive() const { return *alive_; }
  void deliver(ServerEvent event);
  /// kill -9: what is being stored may or may not get to the disk.
  void kill();
  /// Its connection to the store is cut: it lives on, but another can lead.
  void depose();
  void stop_faults() { setup_.store_faults = 0; }
  [[nodiscard]] const ServerReactor& reactor() const { return *reactor_; }

 private:
  [[nodiscard]] Time now() const { return clock_.local(setup_.world.now()); }
  void wake(Nanoseconds delay);
  void run_batch();
  void commit();
  void act();
  void carry_out(const ServerEffect& effect);
  // One for each effect: a new one does not compile until it has its own.
  void obey(const Answer& answer);
  void obey(const OpenSession& open);
  void obey(const RefuseSession& refuse);
  void obey(const SendToWorker& send);
  void obey(const CloseSession& close);
  void obey(const AskPlan& ask);
  void obey(const Note& note);
  void die();
  void schedule_tick();

  Setup setup_;
  ServerSide side_;
  DriftingClock clock_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< Shared with its events.
  std::unique_ptr<Store> store_;
  std::unique_ptr<ServerReactor> reactor_;
  std::vector<ServerEvent> inbox_;
  Outbox out_;
  bool busy_ = false;
  std::uint64_t ticks_ = 0;  ///< Only the latest planned tick counts.
  std::map<std::pair<WorkerId, Epoch>, RequestId> connections_;
  std::map<WorkerId, Epoch> current_;
};

}  // namespace harmonics::inline in_sim
