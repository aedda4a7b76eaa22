#include <harmonics/schedule/parameter_server.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "parameter_rounds.h"
#include "parameter_slot.h"
#include "parameter_store.h"

namespace harmonics::inline in_schedule {

void ParameterServerOptions::check() const {
  if (workers < 1 || workers > kMaxParameterWorkers) {
    fail(ErrorCode::kInvalidArgument, "a parameter server for {} workers: choose 1 to {}", workers,
         kMaxParameterWorkers);
  }
  if (shards < 1 || shards > kMaxParameterShards || shard >= shards) {
    fail(ErrorCode::kInvalidArgument, "shard {} of {}: there are 1 to {}, numbered from 0", shard,
         shards, kMaxParameterShards);
  }
  if (clip_norm != 0 && shards > 1) {
    fail(ErrorCode::kInvalidArgument,
         "clipping needs the gradients of all parameters: use one server, or no clipping");
  }
  if (clip_norm < 0 || checkpoint_every < 0 || (checkpoint_every > 0 && checkpoint.empty())) {
    fail(ErrorCode::kInvalidArgument,
         "clipping and checkpoints: a number is negative, or the "
         "checkpoint's path is missing");
  }
  if (worker_deadline <= Nanoseconds(0)) {
    fail(ErrorCode::kInvalidArgument, "the deadline of a worker must be positive");
  }
}

struct ParameterServer::State {
  State(const NamedTensors& start, const RemoteBinding& where, const ParameterServerOptions& wanted)
      : options(wanted),
        store(start, wanted),
        rounds(wanted.mode, wanted.staleness, wanted.workers),
        pending(wanted.workers),
        events(2 * std::size_t{wanted.workers}) {
    place = where;
    place.listen = true;
    std::size_t largest = 4096;  // a refusal's text, and the layout of few parameters
    ParameterLayout layout{options.mode, options.workers, options.shard, options.shards, {}};
    for (const auto& [name, value] : store.values()) {
      layout.tensors.emplace_back(name, value.spec());
      largest = std::max(largest, value.byte_size());
    }
    largest = std::max(largest, encode(layout).size());
    place.max_message_size =
        static_cast<int>(std::min<std::size_t>(largest, std::numeric_limits<int>::max()));
    for (std::uint32_t worker = 0; worker < options.workers; ++worker) {
      slots.push_back(std::make_unique<ParameterSlot>(
          place, worker, layout, options,
          [this](WorkerEvent event) { return events.push(std::move(event)); }));
      place.port = slots.back()->place().port;
    }
    for (const auto& slot : slots) slot->start();
    thread = std::thread([this] { run(); });
  }

  ~State() {
    events.close();
    thread.join();
    slots.clear();
  }

  /// The one thread that changes parameters.
  void run() {
    const Deadline enough = deadline_in(options.first_contact);
    while (true) {
      Nanoseconds patience = decltype(events)::kForever;
      if (!rounds.begun()) {
        patience = std::max<Nanoseconds>(enough - std::chrono::steady_clock::now(), Nanoseconds(0));
      }
      std::optional<WorkerEvent> event = events.pop(patience);
      if (!event && events.closed()) return;
      ParameterRounds::Answer answer;
      {
        const std::lock_guard lock(mutex);
        answer = event ? note(std::move(*event)) : rounds.begin();
        apply(answer.apply);
        stats.workers_here = static_cast<std::uint32_t>(rounds.live());
        stats.longest_lead = rounds.longest_lead();
      }
      changed.notify_all();
      for (const std::uint32_t worker : answer.release) {
        slots[worker]->answer({store.version(), store.values()});
      }
    }
  }

  ParameterRounds::Answer note(WorkerEvent event) {
    switch (event.kind) {
      case WorkerEvent::Kind::kJoined: ++stats.workers_joined; return rounds.joined(event.worker);
      case WorkerEvent::Kind::kPushed:
        pending[event.worker] = std::move(event.contribution);
        return rounds.pushed(event.worker);
      case WorkerEvent::Kind::kLeft: break;
    }
    pending[event.worker] = {};
    if (event.end == WorkerEvent::End::kLost) ++stats.workers_lost;
    if (event.end == WorkerEvent::End::kRefused) ++stats.workers_refused;
    return rounds.left(event.worker);
  }

  void apply(const std::vector<std::uint32_t>& workers) {
    std::vector<Contribution> due;
    for (const std::uint32_t worker : workers) {
      due.push_back(std::exchange(pending[worker], {}));
      if (options.mode == ParameterMode::Synchronous) continue;
      update(due);
      due.clear();
    }
    if (!due.empty()) update(due);
  }

  void update(std::span<const Contribution> due) {
    try {
      store.apply(due);
      ++stats.updates;
    } catch (const std::exception& error) {
      // Only the checkpoint can fail: the parameters are as they should be.
      log_warn("schedule", "parameter server: {}", error.what());
    }
  }

  template <typename Condition>
  void wait(Nanoseconds patience, std::string_view what, Condition&& condition) {
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, patience, condition)) return;
    fail(ErrorCode::kDeadlineExceeded,
         "parameter server: {} did not come about in time: {} updates, {} of {} workers here", what,
         store.version(), rounds.live(), options.workers);
  }

  const ParameterServerOptions options;
  RemoteBinding place;
  mutable std::mutex mutex;  // guards store, rounds, pending and stats
  std::condition_variable changed;
  ParameterStore store;
  ParameterRounds rounds;
  std::vector<Contribution> pending;  // by worker
  ParameterServerStats stats;
  Channel<WorkerEvent> events;
  std::vector<std::unique_ptr<ParameterSlot>> slots;  // by worker
  std::thread thread;
};

ParameterServer::ParameterServer(const NamedTensors& start, const RemoteBinding& place,
                                 const ParameterServerOptions& options) {
  options.check();
  if (start.empty() || start.size() > kMaxParameterTensors) {
    fail(ErrorCode::kInvalidArgument, "a parameter server with {} tensors: it keeps 1 to {}",
         start.size(), kMaxParameterTensors);
  }
  state_ = std::make_unique<State>(start, place, options);
}
ParameterServer::~ParameterServer() = default;

RemoteBinding ParameterServer::place() const { return state_->place; }
std::int64_t ParameterServer::version() const {
  const std::lock_guard lock(state_->mutex);
  return state_->store.version();
}
NamedTensors ParameterServer::parameters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->store.values();
}
ParameterServerStats ParameterServer::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

void ParameterServer::wait_for_version(std::int64_t version, Nanoseconds patience) const {
  state_->wait(patience, format("version {}", version),
               [&] { return state_->store.version() >= version; });
}

void ParameterServer::wait_until_left(Nanoseconds patience) const {
  state_->wait(patience, "the end of the workers",
               [&] { return state_->stats.workers_joined > 0 && state_->rounds.live() == 0; });
}

void ParameterServer::save_checkpoint(const std::filesystem::path& path) const {
  const std::lock_guard lock(state_->mutex);
  state_->store.save(path);
}

std::vector<NamedTensors> shard_parameters(const NamedTensors& parameters, std::uint32_t shards) {
  if (shards < 1 || shards > kMaxParameterShards || shards > parameters.size()) {
    fail(ErrorCode::kInvalidArgument, "{} parameters cannot be cut into {} shards (1 to {})",
         parameters.size(), shards, kMaxParameterShards);
  }
  std::vector<NamedTensors::const_iterator> by_size;
  for (auto at = parameters.begin(); at != parameters.end(); ++at) by_size.push_back(at);
  std::ranges::stable_sort(by_size, std::ranges::greater(),
                           [](const auto& at) { return at->second.byte_size(); });
  // The largest first, each to the shard that has least; no shard stays empty.
  std::vector<NamedTensors> cut(shards);
  std::vector<std::size_t> bytes(shards, 0);
  for (const auto& at : by_size) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(bytes) - bytes.begin());
    cut[least].insert(*at);
    bytes[least] += std::max<std::size_t>(1, at->second.byte_size());
  }
  return cut;
}

}  // namespace harmonics::inline in_schedule
