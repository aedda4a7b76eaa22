// harmonics up: workers on hosts over SSH, the same whether it is called once or often.
#include <atomic>
#include <map>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/file.h>
#include <harmonics/clients/access.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/server/state_folder.h>

#include "foreign_program.h"
#include "host_list.h"
#include "host_script.h"
#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxHostsFile = std::size_t{4} << 20;
constexpr std::size_t kMaxSentFile = std::size_t{64} << 10;
constexpr milliseconds kReadyPeriod(200);

struct HostResult {
  HostLine host;
  std::string state{};   ///< As the host told it, or "failed".
  std::string server{};  ///< The worker's state as the server sees it; empty: it knows none.
  std::string problem{};
};

/// One run of the command.
class UpRun {
 public:
  explicit UpRun(const UpCommand& command)
      : command_(command), access_(resolve_access(command.access)) {
    ssh_ = shell_words(command.ssh.empty() ? "ssh" : command.ssh);
    if (ssh_.empty()) fail(ErrorCode::kInvalidArgument, "--ssh: there is no program in it");
    program_ = ssh_.front().find('/') != std::string::npos
                   ? fs::path(ssh_.front())
                   : find_foreign(ssh_.front(), "install it (Debian: openssh-client)");
    for (HostLine& host :
         parse_hosts(read_text_file(command.hosts, kMaxHostsFile), command.hosts.string())) {
      results_.push_back({std::move(host)});
    }
    prepare();
  }

  int run();

 private:
  [[nodiscard]] Steady::time_point end() const {
    return Steady::now() + milliseconds(static_cast<std::int64_t>(command_.timeout_s * 1000));
  }
  void prepare();
  [[nodiscard]] std::vector<HostFile> files_for(const HostLine& host) const;
  [[nodiscard]] HostOrder order_for(const HostLine& host) const;
  void ask(HostResult& result) const;
  void ask_all();
  void drain_all(ClusterClient& client);
  void await_ready(ClusterClient& client);
  void see(ClusterClient& client);
  [[nodiscard]] bool well(const HostResult& result) const;
  void show() const;

  const UpCommand& command_;
  const ServerAccess access_;
  std::vector<std::string> ssh_;
  fs::path program_;
  std::string token_;
  std::vector<HostResult> results_;
};

/// What is wrong here is said before any host is touched.
void UpRun::prepare() {
  if (command_.wish != UpWish::kUp) return;
  if (access_.tls.empty()) {
    token_ = read_token_file(access_.token_file.empty() ? state_folder(access_.state_dir) / "token"
                                                        : access_.token_file);
    return;
  }
  for (const HostResult& result : results_) static_cast<void>(files_for(result.host));
}

std::vector<HostFile> UpRun::files_for(const HostLine& host) const {
  if (access_.tls.empty()) return {{"token", token_ + "\n"}};
  const fs::path folder = access_.tls / "hosts" / host.host;
  if (!fs::is_directory(folder)) {
    fail(ErrorCode::kNotFound,
         "there are no certificates of '{}' in '{}': make them with 'harmonics server --init {} "
         "--init-host {}'",
         host.host, folder.string(), access_.tls.string(), host.host);
  }
  std::vector<HostFile> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files.push_back({entry.path().filename().string(), read_text_file(entry.path(), kMaxSentFile)});
  }
  std::ranges::sort(files, {}, &HostFile::name);
  return files;
}

HostOrder UpRun::order_for(const HostLine& host) const {
  HostOrder order{command_.wish, host.worker, command_.program, {}, {}};
  if (command_.wish != UpWish::kUp) return order;
  order.files = files_for(host);
  order.flags = {"--scheduler", command_.as_seen.empty() ? access_.scheduler : command_.as_seen};
  if (access_.tls.empty()) {
    order.flags.insert(order.flags.end(), {"--token-file", "@FOLDER@/token"});
  } else {
    order.flags.insert(order.flags.end(), {"--tls", "@FOLDER@"});
  }
  const auto names_address = [](const std::string& flag) { return flag.starts_with("--addr"); };
  if (std::ranges::none_of(host.flags, names_address)) {
    const std::string name = is_loopback(host.host) ? "localhost" : host.host;
    order.flags.insert(order.flags.end(), {"--addr", name + ":0"});
  }
  order.flags.insert(order.flags.end(), host.flags.begin(), host.flags.end());
  return order;
}

void UpRun::ask(HostResult& result) const {
  std::vector<std::string> words(ssh_.begin() + 1, ssh_.end());
  words.insert(words.end(),
               {"-o", "BatchMode=yes", "-o",
                format("ConnectTimeout={}", std::max(1, static_cast<int>(command_.timeout_s)))});
  if (result.host.port != 0) words.insert(words.end(), {"-p", std::to_string(result.host.port)});
  if (!result.host.user.empty()) words.insert(words.end(), {"-l", result.host.user});
  words.insert(words.end(), {result.host.host, "sh", "-s"});
  const auto patience = milliseconds(static_cast<std::int64_t>(command_.timeout_s * 1000));
  const ForeignAnswer answer =
      ask_foreign(program_, words, host_script(order_for(result.host)), patience);
  result.state = told_state(answer.out).first;
  if (result.state.empty()) result.state = "failed";
  if (result.state == "failed") result.problem = failure_text(answer);
  if (result.state == "missing") {
    result.problem =
        format("there is no '{}' on that host: install it, or say where it is with --program",
               command_.program);
  } else if (result.state == "differs") {
    result.problem = "it runs with other flags than asked for: end it with --down first";
  } else if (result.state == "foreign" && command_.wish != UpWish::kStatus) {
    result.problem = "a worker of that name runs there that 'harmonics up' has not started";
  }
}

void UpRun::ask_all() {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < results_.size(); i = next++) {
      HostResult& result = results_[i];
      if (!result.problem.empty()) continue;
      try {
        ask(result);
      } catch (const Error& error) {
        result.state = "failed";
        result.problem = error.what();
      }
    }
  };
  std::vector<std::thread> threads;
  const std::size_t count = std::min(results_.size(), static_cast<std::size_t>(command_.parallel));
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

/// Workers that are to end get nothing new, and their tasks have until the timeout to end.
void UpRun::drain_all(ClusterClient& client) {
  std::map<std::string, HostResult*> left;
  for (HostResult& result : results_) left[result.host.worker] = &result;
  std::map<std::string, std::uint64_t> busy;
  const Steady::time_point until = end();
  bool drained = false;
  do {
    busy.clear();
    for (const WorkerView& worker : client.workers()) {
      if (!left.contains(worker.spec.name)) continue;
      if (!drained && !worker.draining) client.drain(worker.spec.name, true);
      const bool here = worker.state != "away" && worker.state != "expired";
      if (here && (worker.task_count > 0 || !drained)) busy[worker.spec.name] = worker.task_count;
    }
    drained = true;
    if (!busy.empty()) std::this_thread::sleep_for(kReadyPeriod);
  } while (!busy.empty() && !command_.force && Steady::now() < until);
  if (command_.force) return;
  for (const auto& [name, tasks] : busy) {
    left[name]->state = "busy";
    left[name]->problem =
        format("it still has {} tasks and gets no more: wait, cancel them, or --force", tasks);
  }
}

void UpRun::see(ClusterClient& client) {
  std::map<std::string, WorkerView> known;
  for (WorkerView& worker : client.workers()) known[worker.spec.name] = worker;
  for (HostResult& result : results_) {
    const auto found = known.find(result.host.worker);
    result.server = found == known.end() ? "" : found->second.state;
    const bool fresh = result.state == "started" || result.state == "stopped";
    if (found != known.end() && found->second.draining && fresh)
      client.drain(result.host.worker, false);
  }
}

void UpRun::await_ready(ClusterClient& client) {
  const Steady::time_point until = end();
  const auto waits = [](const HostResult& result) {
    return result.problem.empty() && result.server != "ready" && result.server != "draining" &&
           result.server != "unable";
  };
  see(client);
  while (std::ranges::any_of(results_, waits) && Steady::now() < until) {
    std::this_thread::sleep_for(kReadyPeriod);
    see(client);
  }
  for (HostResult& result : results_) {
    if (!waits(result)) continue;
    result.problem = format(
        "its worker runs, but {} does not hear of it: can the host reach it there? (--as-seen)",
        command_.as_seen.empty() ? access_.scheduler : command_.as_seen);
  }
}

bool UpRun::well(const HostResult& result) const {
  if (!result.problem.empty()) return false;
  if (command_.wish == UpWish::kStatus) return result.state == "running";
  if (command_.wish == UpWish::kDown) return result.state == "stopped" || result.state == "absent";
  return result.state == "started" || result.state == "running";
}

void UpRun::show() const {
  if (command_.output == OutputStyle::kJson) {
    Json list = Json::array();
    for (const HostResult& result : results_) {
      list.push(Json()
                    .set("host", result.host.host)
                    .set("worker", result.host.worker)
                    .set("state", result.state)
                    .set("server", result.server)
                    .set("problem", result.problem)
                    .set("well", well(result)));
    }
    return write_json(list, 2);
  }
  if (command_.output == OutputStyle::kQuiet) return;
  Table table{{{"host"}, {"worker"}, {"there"}, {"at the server"}, {"problem"}}, {}};
  for (const HostResult& result : results_) {
    table.rows.push_back({result.host.host, result.host.worker, result.state,
                          result.server.empty() ? "unknown" : result.server, result.problem});
  }
  write_text(TextStream::kOutput, table.text(wants_colour(TextStream::kOutput)));
}

int UpRun::run() {
  ClusterClient client(client_options(command_.access));
  if (command_.wish == UpWish::kDown) drain_all(client);
  ask_all();
  if (command_.wish == UpWish::kUp) {
    await_ready(client);
  } else {
    see(client);
  }
  show();
  const auto bad =
      std::ranges::count_if(results_, [&](const HostResult& one) { return !well(one); });
  if (bad == 0) return kExitDone;
  if (command_.output == OutputStyle::kQuiet) {
    for (const HostResult& result : results_) {
      if (!well(result))
        write_text(TextStream::kError,
                   format("{}: {} {}\n", result.host.host, result.state, escaped(result.problem)));
    }
  }
  return kExitFailed;
}

}  // namespace

int up(const UpCommand& command) { return UpRun(command).run(); }

}  // namespace harmonics::inline in_cluster_program
