#include "simulation.h"

#include <set>

#include <harmonics/base/error.h>

#include "sim_clients.h"
#include "sim_worker.h"

namespace harmonics::inline in_sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kLongest = std::chrono::hours(3);

/// One connection between a machine and a server process.
struct Wire {
  RequestId id{};
  std::size_t machine = 0;
  SimServer* server = nullptr;
  bool up = true;
  WorkerId worker{};  ///< Once the session is open.
  Epoch epoch{};
  Time last_to_server{};
  Time last_to_worker{};
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, Plant plant);
  SimulationReport run();

 private:
  void add_machines();
  void start_server();
  ServerSide side();
  void connect(SimWorker& worker);
  void to_server(std::size_t machine, const WorkerMessage& message);
  void to_worker(RequestId connection, Epoch epoch, const ServerMessage& message);
  /// The connection is over and both ends hear of it, the one later than the other.
  void drop(Wire& wire, Nanoseconds patience);
  void fault();
  void cut(std::size_t machine);
  void make_peace();
  void mind();
  Nanoseconds latency() {
    return world_.between(Nanoseconds(100'000),
                          world_.chance(0.05) ? seconds(2) : milliseconds(10));
  }

  World world_;
  Plant plant_;
  Witness witness_;
  std::unique_ptr<WorkloadPolicy> policy_;
  ServerOptions options_;
  std::shared_ptr<MemoryDisk> disk_ = make_memory_disk();
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<std::unique_ptr<SimWorker>> machines_;
  std::vector<bool> partitioned_;
  std::map<RequestId, Wire> wires_;
  std::map<std::size_t, RequestId> wire_of_;
  std::uint64_t connections_ = 0;
  std::unique_ptr<SimClients> clients_;
  bool minded_ = false;  ///< An administrator looks after workers that will never come back.
  std::uint64_t faults_ = 0;
  bool peace_ = false;
};

Simulation::Simulation(std::uint64_t seed, Plant plant) : world_(seed), plant_(plant) {
  const std::vector<std::string> policies = policy_names();
  policy_ = make_policy(policies[world_.below(policies.size())]);
  options_.lease = seconds(10);
  options_.heartbeat = seconds(2);
  options_.drift = seconds(1);
  options_.hold = seconds(world_.chance(0.2) ? 10 : 30);
  options_.stop_grace = seconds(1);
  add_machines();
  minded_ = world_.chance(0.5);
  clients_ = std::make_unique<SimClients>(world_, witness_, minded_, [this](ServerEvent event) {
    world_.after(latency(), [this, event = std::move(event)] {
      if (servers_.back()->alive()) servers_.back()->deliver(event);
    });
  });
  start_server();
  if (minded_) mind();
}

void Simulation::add_machines() {
  const std::size_t count = 2 + world_.below(4);
  partitioned_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    WorkerSpec spec;
    for (int gpu = 0; gpu < 2; ++gpu) spec.devices.push_back({std::to_string(gpu), "m", 8192});
    spec.cpus = 8;
    spec.resources = {{"fpga", 2}, {"tokens", 8}};
    spec.labels = {{"zone", i % 2 == 0 ? "a" : "b"}};
    for (DeviceSpec& device : spec.devices) device.model = i % 3 == 0 ? "NVIDIA A100-SXM4" : "T4";
    machines_.push_back(std::make_unique<SimWorker>(SimWorker::Setup{
        world_, witness_, i, spec, plant_, 0.1, [this](SimWorker& worker) { connect(worker); },
        [this, i](const WorkerMessage& message) { to_server(i, message); },
        [this, i] {
          const auto wire = wires_.find(wire_of_[i]);
          if (wire != wires_.end() && wire->second.up) drop(wire->second, milliseconds(50));
        }}));
    world_.after(world_.between(Nanoseconds{}, seconds(5)), [this, i] { machines_[i]->start(); });
  }
}

void Simulation::start_server() {
  SimServer::Setup setup{world_,   witness_,           disk_,  *policy_,
                         options_, peace_ ? 0 : 0.002, plant_, [] {}};
  setup.died = [this, index = servers_.size()] {
    // Its connections break with it.
    for (auto& [id, wire] : wires_) {
      if (wire.up && wire.server == servers_[index].get()) drop(wire, milliseconds(50));
    }
    if (index + 1 != servers_.size()) return;
    // Now and then it is away for longer than a lease, or than a hold.
    const seconds longest(peace_ ? 1 : world_.chance(0.2) ? 60 : 8);
    world_.after(world_.between(milliseconds(200), longest), [this, index] {
      if (index + 1 == servers_.size()) start_server();
    });
  };
  servers_.push_back(nullptr);
  servers_.back() = std::make_unique<SimServer>(setup, side());
}

ServerSide Simulation::side() {
  return {[this](RequestId connection, Epoch epoch, const ServerMessage& message) {
            to_worker(connection, epoch, message);
          },
          [this](RequestId connection) {
            const auto wire = wires_.find(connection);
            if (wire != wires_.end() && wire->second.up) drop(wire->second, milliseconds(50));
          },
          [this](const Answer& answer) {
            world_.after(latency(), [this, answer] { clients_->answered(answer); });
          }};
}

void Simulation::connect(SimWorker& worker) {
  const std::size_t machine = worker.machine();
  SimServer& server = *servers_.back();
  if (partitioned_[machine] || !server.alive()) {
    world_.after(world_.between(milliseconds(200), seconds(2)), [this, machine] {
      SimWorker& again = *machines_[machine];
      const auto wire = wires_.find(wire_of_[machine]);
      const bool up = wire != wires_.end() && wire->second.up;
      if (again.alive() && !up) connect(again);
    });
    return;
  }
  const RequestId id{++connections_};
  wires_[id] = {id, machine, &server, true, {}, {}, world_.now(), world_.now()};
  wire_of_[machine] = id;
  worker.connected();
}

void Simulation::to_server(std::size_t machine, const WorkerMessage& message) {
  const auto found = wires_.find(wire_of_[machine]);
  if (found == wires_.end() || !found->second.up) return;
  Wire& wire = found->second;
  // In order: never before the one sent last.
  wire.last_to_server = std::max(wire.last_to_server + Nanoseconds(1), world_.now() + latency());
  world_.after(wire.last_to_server - world_.now(), [this, id = wire.id, message] {
    const Wire& at = wires_.at(id);
    if (!at.up || !at.server->alive()) return;
    if (const auto* hello = std::get_if<HelloMessage>(&message)) {
      at.server->deliver(WorkerHello{id, *hello});
    } else if (at.epoch != Epoch{}) {
      at.server->deliver(WorkerSays{at.worker, at.epoch, message});
    }
  });
}

void Simulation::to_worker(RequestId connection, Epoch epoch, const ServerMessage& message) {
  const auto found = wires_.find(connection);
  if (found == wires_.end() || !found->second.up) return;
  Wire& wire = found->second;
  if (const auto* welcome = std::get_if<WelcomeMessage>(&message)) {
    wire.worker = welcome->worker;
    wire.epoch = epoch;
  }
  wire.last_to_worker = std::max(wire.last_to_worker + Nanoseconds(1), world_.now() + latency());
  world_.after(wire.last_to_worker - world_.now(), [this, id = wire.id, epoch, message] {
    const Wire& at = wires_.at(id);
    if (at.up && wire_of_[at.machine] == id) machines_[at.machine]->receive(epoch, message);
  });
}

void Simulation::drop(Wire& wire, Nanoseconds patience) {
  wire.up = false;
  world_.after(world_.between(Nanoseconds{}, patience), [this, id = wire.id] {
    const Wire& at = wires_.at(id);
    if (wire_of_[at.machine] == id) machines_[at.machine]->disconnected();
  });
  world_.after(world_.between(Nanoseconds{}, patience), [this, id = wire.id] {
    const Wire& at = wires_.at(id);
    if (at.epoch != Epoch{} && at.server->alive())
      at.server->deliver(WorkerGone{at.worker, at.epoch});
  });
}

void Simulation::cut(std::size_t machine) {
  const auto wire = wires_.find(wire_of_[machine]);
  if (wire != wires_.end() && wire->second.up) drop(wire->second, seconds(40));
}

// An administrator looks now and then for workers whose disks are no more, and gives them up.
void Simulation::mind() {
  const auto disk_of = [](const std::string& identity) {
    return identity.substr(0, identity.find('@'));
  };
  std::set<std::string> disks;
  for (const auto& machine : machines_) disks.insert(disk_of(machine->identity()));
  if (servers_.back()->alive()) {
    for (const WorkerRecord* worker : servers_.back()->reactor().state().workers()) {
      if (!disks.contains(disk_of(worker->spec.identity))) clients_->forget(worker->spec.name);
    }
  }
  world_.after(seconds(20), [this] { mind(); });
}

void Simulation::fault() {
  ++faults_;
  const std::size_t i = world_.below(machines_.size());
  SimWorker& machine = *machines_[i];
  const Nanoseconds outage =
      world_.between(milliseconds(100), seconds(world_.chance(0.3) ? 40 : 8));
  const auto restart = [this, i, outage] {
    world_.after(outage, [this, i] { machines_[i]->start(); });
  };
  switch (world_.below(11)) {
    case 0:
    case 1: servers_.back()->kill(); break;
    case 2: {
      // A new server takes the lead while the old one still believes that it leads.
      if (!servers_.back()->alive()) break;
      servers_.back()->depose();
      start_server();
      break;
    }
    case 3:
    case 4:
      machine.kill();
      restart();
      break;
    case 5:
      machine.reboot();
      restart();
      break;
    case 6:
      if (world_.chance(0.3)) {
        machine.wipe();
        restart();
      }
      break;
    case 7: cut(i); break;
    case 8: machine.sicken(outage); break;
    default:
      partitioned_[i] = true;
      cut(i);
      world_.after(outage, [this, i] { partitioned_[i] = false; });
      break;
  }
}

void Simulation::make_peace() {
  peace_ = true;
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    partitioned_[i] = false;
    machines_[i]->start();
  }
  for (const auto& server : servers_) server->stop_faults();
  clients_->stop();
}

SimulationReport Simulation::run() {
  const Time end_of_war = world_.between(seconds(60), seconds(120));
  Time next_fault = world_.between(seconds(5), seconds(15));
  while (!(peace_ && clients_->idle() && witness_.all_ended())) {
    if (!world_.step()) fail(ErrorCode::kInternal, "nothing happens any more");
    if (!peace_ && world_.now() >= next_fault) {
      fault();
      next_fault = world_.now() + world_.between(milliseconds(100), seconds(8));
    }
    if (!peace_ && world_.now() >= end_of_war) make_peace();
    if (world_.now() > kLongest) {
      fail(ErrorCode::kInternal, "promise broken: no end in sight: {}", witness_.unfinished());
    }
  }
  const Time ended = world_.now();
  servers_.back()->kill();
  servers_.clear();
  const auto store = open_memory_store(disk_);
  store->lead(seconds(1));
  witness_.check_rest(load_state(*store));
  return {world_.events(), faults_, witness_.tasks(), witness_.attempts(), ended};
}

}  // namespace

SimulationReport simulate(std::uint64_t seed, Plant plant) {
  try {
    return Simulation(seed, plant).run();
  } catch (const std::exception& error) {
    fail(ErrorCode::kInternal, "simulation, seed {}: {}", seed, error.what());
  }
}

}  // namespace harmonics::inline in_sim
