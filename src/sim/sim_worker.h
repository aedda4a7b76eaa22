// A machine with a worker process, its records on disk, and the tasks' own processes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/cluster/worker_reactor.h>

#include "sim_server.h"
#include "witness.h"
#include "world.h"

namespace harmonics::inline in_sim {

class SimWorker {
 public:
  struct Setup {
    World& world;
    Witness& witness;
    std::size_t machine = 0;
    WorkerSpec spec;
    Plant plant = Plant::kNone;
    double failures = 0.1;                    ///< Of tasks, by themselves.
    std::function<void(SimWorker&)> connect;  ///< Ask for a connection.
    std::function<void(const WorkerMessage&)> send;
    std::function<void()> hang_up;
  };
  explicit SimWorker(const Setup& setup);

  // What the network tells.
  void connected();
  void disconnected();
  void receive(Epoch epoch, const ServerMessage& message);

  /// kill -9 of the worker process; tasks and records stay.
  void kill();
  /// The machine goes down: tasks die with it.
  void reboot();
  /// The machine is replaced: records and identity are gone too.
  void wipe();
  /// Its disk is full for so long: it can start nothing.
  void sicken(Nanoseconds duration) { sick_until_ = setup_.world.now() + duration; }
  /// The worker process starts, unless it runs.
  void start();
  [[nodiscard]] bool alive() const { return reactor_ != nullptr; }
  /// Of its disk.
  [[nodiscard]] std::string identity() const;
  [[nodiscard]] std::size_t machine() const { return setup_.machine; }

 private:
  /// What the disk keeps of an attempt.
  struct Record {
    OnDisconnect on_disconnect = OnDisconnect::kStop;
    std::optional<EndResult> ended;
  };
  /// A task's process under its supervisor.
  struct Process {
    std::uint64_t number = 0;  ///< Events about an earlier one do not count.
    DeviceSet devices;
    OnDisconnect on_disconnect = OnDisconnect::kStop;
  };

  [[nodiscard]] Time now() const { return clock_.local(setup_.world.now()); }
  void feed(const WorkerEvent& event);
  void carry_out(const WorkerEffect& effect);
  // One for each effect: a new one does not compile until it has its own.
  void obey(const SendToServer& send);
  void obey(const Launch& launch);
  void obey(const Stop& stop);
  void obey(const ExtendLease& lease);
  void obey(const DropRecord& drop);
  void obey(const Reconnect& reconnect);
  void obey(const GiveUp& give_up);
  void spawn(const StartMessage& start);
  void end(AttemptId id, const EndResult& result);
  void watch_lease(AttemptId id);
  void schedule_tick();
  void reconnect(Nanoseconds delay);

  Setup setup_;
  DriftingClock clock_;
  // The disk.
  std::map<AttemptId, Record> records_;
  ExtendLease lease_{};  ///< What every supervisor reads.
  std::string name_;
  std::uint64_t wipes_ = 0;
  // The machine.
  std::map<AttemptId, Process> processes_;
  std::uint64_t spawned_ = 0;
  std::uint64_t boots_ = 0;
  Time sick_until_{};
  // The worker process.
  std::unique_ptr<WorkerReactor> reactor_;
  std::uint64_t life_ = 0;
  std::uint64_t ticks_ = 0;
  bool online_ = false;
};

}  // namespace harmonics::inline in_sim
