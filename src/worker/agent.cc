#include <harmonics/worker/agent.h>

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <harmonics/base/channel.h>
#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/cluster/task_files.h>
#include <harmonics/cluster/worker_reactor.h>
#include <harmonics/rpc/output_service.h>
#include <harmonics/rpc/worker_line.h>

#include "cgroups.h"
#include "device_holders.h"
#include "output_reader.h"
#include "supervisor/process_tree.h"
#include "supervisor/supervisor_host.h"
#include "supervisor/task_cgroup.h"
#include "task_folders.h"
#include "task_run.h"
#include "task_users.h"

namespace harmonics::inline in_worker {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxLineEvents = 4096;
constexpr std::chrono::seconds kLauncherPatience(30);
constexpr milliseconds kFirstReconnect(50);
constexpr milliseconds kLastReconnect(2000);
constexpr milliseconds kProgressPeriod(500);
constexpr std::size_t kMaxProgressBytes = 4096;
/// Tasks that run at once here, whatever they say they need, and those of them in the making.
constexpr std::size_t kMaxRunning = 4096;
constexpr std::size_t kMaxStarting = 64;
/// The server's default; a welcome brings the real one.
constexpr std::uint64_t kDefaultGraceMs = 5000;
/// Of the identity, and of the token that opens what tasks print.
constexpr std::size_t kSecretBytes = 16;
/// Of the identity, in the names of cgroups.
constexpr std::size_t kMarkLetters = 8;
/// And in the name of the folder that tasks of other users work in: nobody must guess it.
constexpr std::size_t kFolderLetters = 32;

std::vector<std::pair<std::string, std::string>> own_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals == 0) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

/// Drawn once for the folder. With the boot's own id behind it it is another after each boot: what
/// ran before is gone then, whatever the records (which are not synced) still say.
std::string read_identity(const std::filesystem::path& folder) {
  const auto file = folder / "identity";
  if (!std::filesystem::exists(file)) write_text_file(file, random_hex(kSecretBytes));
  return read_text_file(file, 256);
}
std::string identity_of(const std::filesystem::path& folder) {
  return read_identity(folder) + "@" + boot_id();
}

Time wall_now() {
  return std::chrono::duration_cast<Time>(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

struct WorkerAgent::Parts {
  explicit Parts(WorkerSettings given)
      : settings(std::move(given)),
        users(settings.task_user),
        host(settings.state_dir, settings.supervisor, kLauncherPatience, settings.keep_bytes),
        cgroups(read_identity(settings.state_dir).substr(0, kMarkLetters),
                {.given = settings.cgroup}),
        output_token(random_hex(kSecretBytes)),
        logs(OutputService::Options{settings.spec.address, output_token, settings.server.tls},
             [this](AttemptId attempt, const OutputQuery& query, const OutputService::Take& take) {
               read_output(settings.state_dir, attempt, query, take);
             }) {
    settings.spec.address = logs.address();
    settings.spec.identity = identity_of(settings.state_dir);
    settings.spec.no_stages = users.apart() && settings.server.tls.has_value();
    around = {
        settings.spec,     own_environment(),      settings.trainer,           settings.stage,
        settings.slowdown, settings.server.tls,    host.lease_file().string(), settings.log_bytes,
        kDefaultGraceMs,   settings.artifact_bytes};
    recover();
  }

  void recover() {
    std::vector<RecoveredAttempt> recovered;
    for (const RecoveredRun& found : host.recover()) {
      RecoveredAttempt attempt;
      attempt.report.id = attempt_from(found.run.attempt);
      attempt.report.launched = found.launched;
      if (found.ended) attempt.report.ended = end_result(*found.ended);
      attempt.on_disconnect = found.run.lease_bound  ? OnDisconnect::kStop
                              : found.run.hold_bound ? OnDisconnect::kContinue
                                                     : OnDisconnect::kForever;
      if (!found.ended) {
        running.insert(found.run.attempt);
        holders.add(found.run);
      }
      recovered.push_back(std::move(attempt));
    }
    kill_leftover();
    make_task_folders();
    const SupervisorHost::LeaseEnds lease = host.lease();
    const auto moment = [&](std::uint64_t boottime) {
      if (boottime == 0) return Time{};
      return now() + Nanoseconds(static_cast<std::int64_t>(boottime - boottime_ns()));
    };
    const ExtendLease last{moment(lease.lease_ns), moment(lease.hold_ns)};
    reactor = std::make_unique<WorkerReactor>(settings.spec, std::move(recovered), last);
  }

  void make_task_folders() {
    if (!users.apart()) return;
    std::vector<std::filesystem::path> secrets = settings.secrets;
    secrets.push_back(settings.state_dir);
    if (settings.server.tls) secrets.push_back(settings.server.tls->key);
    users.check_closed(secrets);
    folders =
        TaskFolders(settings.task_dir, read_identity(settings.state_dir).substr(0, kFolderLetters),
                    {running.begin(), running.end()});
    if (users.wish() != TaskUsers::kOwner) folders.check_reach(*users.account_of({}));
  }

  /// Cgroups of attempts that nobody has a record of.
  void kill_leftover() const {
    for (const auto& [attempt, folders] : cgroups.leftover()) {
      if (running.contains(attempt)) continue;
      for (int round = 0; round < kKillRounds && !kill_cgroups(folders); ++round) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      remove_cgroups(folders);
    }
  }

  Time now() const { return started_wall + (clock.now() - started_steady); }

  // What the loop is made of.
  void connect();
  void cut();
  void hear(LineEvent event, Time at);
  void hear_supervisors(std::vector<SupervisorEvent> events, Time at);
  void report_progress(Time at);
  void tell_progress(const std::string& attempt);
  void carry_out(const WorkerEffect& effect);
  // One for each effect: a new one does not compile until it has its own.
  void obey(const SendToServer& send);
  void obey(const Launch& launch);
  void obey(const Stop& stop);
  void obey(const ExtendLease& lease);
  void obey(const DropRecord& drop);
  void obey(const Reconnect& reconnect);
  void obey(const GiveUp& give_up);
  RunRecord prepare(const StartMessage& start) const;
  void launch_waiting();
  bool must_wait(const StartMessage& start, const RunRecord& run);
  bool drop_waiting(const Stop& stop);
  void schedule_reconnect(const std::string& reason);
  bool idle_over();
  std::string run();

  WorkerSettings settings;
  const TaskUsers users;
  TaskFolders folders;
  SteadyClock clock;
  const Time started_wall = wall_now();
  const Nanoseconds started_steady = clock.now();
  SupervisorHost host;
  Cgroups cgroups;
  std::string output_token;
  OutputService logs;
  TaskSurroundings around;
  std::unique_ptr<WorkerReactor> reactor;
  std::set<std::string> running;
  std::set<std::string> starting;       ///< Of those, the ones whose launch is awaited.
  std::deque<StartMessage> waiting;     ///< Not started yet: too many are at once.
  DeviceHolders holders;                ///< Of those that run.
  std::vector<StartMessage> held_back;  ///< Not started yet: something before them still lives.
  std::map<std::string, std::string> told_progress;  ///< The line last sent, by attempt.

  const std::vector<std::string> servers = server_addresses(settings.server.server);
  std::size_t next_server = 0;
  /// Each connection has its own: what the last one said is not heard after it was cut.
  std::shared_ptr<Channel<LineEvent>> inbox;
  std::unique_ptr<WorkerLine> server_line;
  Time reconnect_at{};  ///< While there is no line to the server.
  milliseconds backoff = kFirstReconnect;
  Random chance{random_key(static_cast<std::uint64_t>(started_steady.count()), "reconnect")};
  Time next_progress{};
  std::vector<WorkerEffect> effects;
  std::string gave_up;
  Time busy_at = now();     ///< When it last had a task.
  bool said_alone = false;  ///< That there is no session is said once, not with every try.
  std::atomic<bool> stopping{false};
};

void WorkerAgent::Parts::connect() {
  inbox = std::make_shared<Channel<LineEvent>>(kMaxLineEvents);
  ClientOptions options = settings.server;
  options.server = servers[next_server % servers.size()];
  server_line =
      std::make_unique<WorkerLine>(options, output_token, [this, inbox = inbox](LineEvent event) {
        inbox->push(std::move(event));
        host.wake();
      });
  reactor->handle(Connected{}, now(), effects);
}

void WorkerAgent::Parts::cut() {
  inbox->close();  // before the line ends: its thread may wait for room
  server_line.reset();
}

void WorkerAgent::Parts::schedule_reconnect(const std::string& reason) {
  cut();
  ++next_server;  // where there are several, one leads at a time
  reactor->handle(Disconnected{}, now(), effects);
  const auto spread = milliseconds(chance.below(static_cast<std::uint64_t>(backoff.count())));
  reconnect_at = now() + backoff + spread;
  if (std::exchange(said_alone, true)) {
    log_info("worker", "no session with {} ({}): trying again", settings.server.server, reason);
  } else {
    log_warn("worker", "no session with {} ({}): trying again until there is one",
             settings.server.server, reason);
  }
  backoff = std::min(backoff * 2, kLastReconnect);
}

void WorkerAgent::Parts::hear(LineEvent event, Time at) {
  if (const auto* closed = std::get_if<LineClosed>(&event)) {
    if (closed->refused) gave_up = closed->reason;
    schedule_reconnect(closed->reason);
    return;
  }
  LineSays& says = std::get<LineSays>(event);
  for (ServerMessage& message : says.messages) {
    if (const auto* welcome = std::get_if<WelcomeMessage>(&message)) {
      backoff = kFirstReconnect;
      around.worker.name = welcome->name;
      around.grace_ms = static_cast<std::uint64_t>(
          std::chrono::duration_cast<milliseconds>(welcome->stop_grace).count());
      const LogLevel level = std::exchange(said_alone, false) ? LogLevel::kWarn : LogLevel::kInfo;
      log_line(level, "worker",
               format("{} is connected to {}", welcome->name, settings.server.server));
    }
    reactor->handle(ServerSays{says.epoch, std::move(message)}, at, effects);
  }
}

void WorkerAgent::Parts::hear_supervisors(std::vector<SupervisorEvent> events, Time at) {
  for (const SupervisorEvent& event : events) {
    const AttemptId id = attempt_from(event.attempt);
    starting.erase(event.attempt);
    if (!event.ended) {
      reactor->handle(ProcessLaunched{id}, at, effects);
      continue;
    }
    tell_progress(event.attempt);  // what it said last
    running.erase(event.attempt);
    told_progress.erase(event.attempt);
    holders.remove(event.attempt);
    for (StartMessage& start : held_back) waiting.push_back(std::move(start));
    held_back.clear();
    reactor->handle(ProcessEnded{id, end_result(*event.ended)}, at, effects);
  }
}

void WorkerAgent::Parts::report_progress(Time at) {
  next_progress = at + kProgressPeriod;
  for (const std::string& attempt : running) tell_progress(attempt);
}

void WorkerAgent::Parts::tell_progress(const std::string& attempt) {
  if (!server_line) return;
  const auto folder = SupervisorHost::folder_of(settings.state_dir, attempt);
  auto line = read_small_file((folder / "progress").string(), kMaxProgressBytes);
  if (!line || line->empty() || told_progress[attempt] == *line) return;
  told_progress[attempt] = *line;
  line->pop_back();  // its end of line
  server_line->report({attempt_from(attempt), std::move(*line)});
}

/// An Error says why the task can never start here.
RunRecord WorkerAgent::Parts::prepare(const StartMessage& start) const {
  check_files(*start.spec);
  const std::optional<TaskAccount> account = users.account_of(start.user);
  if (!account) return make_run(start, around);
  if (start.spec->pipeline && around.tls) {
    fail(ErrorCode::kFailedPrecondition,
         "worker {} runs tasks as another user (--task-user), who cannot read the key with which "
         "stages of pipelines speak TLS: give pipelines a worker without that flag",
         around.worker.name);
  }
  return make_run(start, around, &*account, folders.of(to_string(start.id)));
}

void WorkerAgent::Parts::launch_waiting() {
  while (!waiting.empty() && starting.size() < kMaxStarting && running.size() < kMaxRunning) {
    const StartMessage start = std::move(waiting.front());
    waiting.pop_front();
    RunRecord run;
    try {
      run = prepare(start);
    } catch (const Error& error) {
      reactor->handle(ProcessEnded{start.id, {EndKind::kRefused, 0, 0, error.what()}}, now(),
                      effects);
      continue;
    }
    if (must_wait(start, run)) continue;
    try {
      folders.ensure();
      run.cgroups = cgroups.make(run.attempt, {start.spec->cpus, start.spec->memory_mb});
      run.memory_mb = start.spec->memory_mb;
    } catch (const Error& error) {
      // It never started, for no fault of its own.
      reactor->handle(ProcessEnded{start.id, {EndKind::kUnable, 0, 0, error.what()}}, now(),
                      effects);
      continue;
    }
    running.insert(run.attempt);
    starting.insert(run.attempt);
    holders.add(run);
    folders.remove(run.attempt);  // of an earlier life
    host.start(run, start.spec->files.all());
  }
}

bool WorkerAgent::Parts::must_wait(const StartMessage& start, const RunRecord& run) {
  const std::string before = holders.before(run);
  if (before.empty()) return false;
  log_warn("worker",
           "attempt {} waits: attempt {}, which has its devices or is of the same task, "
           "cannot be shown to be gone yet",
           run.attempt, before);
  held_back.push_back(start);
  return true;
}

/// Whether the attempt to stop had not even started.
bool WorkerAgent::Parts::drop_waiting(const Stop& stop) {
  const auto drop_from = [&stop](auto& starts) {
    const auto found = std::ranges::find(starts, stop.id, &StartMessage::id);
    if (found == starts.end()) return false;
    starts.erase(found);
    return true;
  };
  if (!drop_from(waiting) && !drop_from(held_back)) return false;
  reactor->handle(ProcessEnded{stop.id, {stop.as, 0, 0, "stopped before it was started"}}, now(),
                  effects);
  return true;
}

void WorkerAgent::Parts::carry_out(const WorkerEffect& effect) {
  std::visit([this](const auto& one) { obey(one); }, effect);
}

void WorkerAgent::Parts::obey(const SendToServer& send) {
  if (server_line) server_line->send(send.message);
}

void WorkerAgent::Parts::obey(const Launch& launch) { waiting.push_back(launch.start); }

void WorkerAgent::Parts::obey(const Stop& stop) {
  if (drop_waiting(stop)) return;
  const auto grace = std::chrono::duration_cast<milliseconds>(stop.grace).count();
  host.stop(to_string(stop.id), {run_end(stop.as), static_cast<std::uint64_t>(grace)});
}

void WorkerAgent::Parts::obey(const ExtendLease& lease) {
  const auto boottime = [at = now(), from = boottime_ns()](Time until) {
    return from + static_cast<std::uint64_t>(std::max(until - at, Nanoseconds(0)).count());
  };
  host.set_lease({boottime(lease.until), boottime(lease.hold_until)});
}

void WorkerAgent::Parts::obey(const DropRecord& drop) {
  host.drop(to_string(drop.id));
  folders.remove(to_string(drop.id));
}

void WorkerAgent::Parts::obey(const Reconnect& reconnect) {
  if (server_line) schedule_reconnect(reconnect.reason);
}

void WorkerAgent::Parts::obey(const GiveUp& give_up) { gave_up = give_up.reason; }

/// Whether it has had no task for as long as it may.
bool WorkerAgent::Parts::idle_over() {
  if (!running.empty() || !waiting.empty() || !held_back.empty()) busy_at = now();
  return settings.idle.count() > 0 && now() >= busy_at + settings.idle;
}

std::string WorkerAgent::Parts::run() {
  connect();
  while (!stopping && gave_up.empty()) {
    // Effects may bring more effects (a reconnection does).
    for (std::size_t i = 0; i < effects.size(); ++i) carry_out(WorkerEffect(effects[i]));
    effects.clear();
    launch_waiting();
    Time wake = reactor->deadline();
    if (!server_line) wake = std::min(wake, reconnect_at);
    if (!running.empty()) wake = std::min(wake, next_progress);
    if (idle_over()) break;
    if (settings.idle.count() > 0) wake = std::min(wake, busy_at + settings.idle);
    if (!effects.empty()) wake = now();  // a launch that came to nothing has more to say
    const Nanoseconds patience =
        wake == kNever ? Channel<LineEvent>::kForever : std::max(wake - now(), Nanoseconds(0));
    auto events = host.wait(patience);
    const Time at = now();
    hear_supervisors(std::move(events), at);
    while (server_line) {
      auto event = inbox->pop(Nanoseconds(0));
      if (!event) break;
      hear(std::move(*event), at);
    }
    if (at >= reactor->deadline()) reactor->handle(WorkerTick{}, at, effects);
    if (at >= next_progress) report_progress(at);
    if (!server_line && at >= reconnect_at && gave_up.empty()) connect();
  }
  if (server_line) cut();
  return gave_up;
}

void check_task_user(const std::string& task_user) { const TaskUsers users(task_user); }

WorkerAgent::WorkerAgent(WorkerSettings settings)
    : parts_(std::make_unique<Parts>(std::move(settings))) {}
WorkerAgent::~WorkerAgent() = default;

const std::string& WorkerAgent::limits_lacking() const { return parts_->cgroups.lacking(); }

std::string WorkerAgent::run() { return parts_->run(); }

void WorkerAgent::stop() {
  parts_->stopping = true;
  parts_->host.wake();
}

}  // namespace harmonics::inline in_worker
