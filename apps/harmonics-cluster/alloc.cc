// harmonics alloc: workers come as jobs of a batch system when the queue asks for them, and go.
#include <condition_variable>
#include <mutex>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/log.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/task_pages.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/programs/programs.h>
#include <harmonics/rpc/client.h>
#include <harmonics/server/state_folder.h>

#include "allocator.h"
#include "foreign_program.h"
#include "signals.h"
#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

namespace fs = std::filesystem;

/// Tasks of the queue that are looked at; those behind them count once these have started.
constexpr std::size_t kMaxQueueLooked = 1000;
/// A worker that its allocator has left alone goes by itself, so much later.
constexpr std::int64_t kIdleMarginSeconds = 60;
constexpr std::size_t kMaxAllocName = 64;

/// Ends the pause between two looks when a signal comes.
class Pause {
 public:
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  /// False: it has been ended.
  bool wait(std::chrono::duration<double> time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, time, [&] { return ended_; });
  }
  [[nodiscard]] bool ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

void check_name(const std::string& name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  if (!name.empty() && name.size() <= kMaxAllocName && std::ranges::all_of(name, good)) return;
  fail(ErrorCode::kInvalidArgument,
       "--name: '{}' is no name for workers: letters, digits, '-' and '_', at most {}", name,
       kMaxAllocName);
}

bool has_flag(const std::vector<std::string>& words, const std::string& flag) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
}

/// One run of the command.
class AllocRun {
 public:
  explicit AllocRun(const AllocCommand& command)
      : command_(command),
        access_(resolve_access(command.access)),
        folder_(state_folder(command.access.state_dir) / ("alloc-" + command.name)),
        allocator_(
            {command.name, static_cast<std::uint32_t>(command.max_workers),
             std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(command.idle_s)),
             command.down}) {
    worker_words_ = shell_words(command.worker_flags);
    for (const char* own : {"--id", "--scheduler", "--state-dir", "--tls", "--token-file"}) {
      if (has_flag(worker_words_, own)) {
        fail(ErrorCode::kInvalidArgument, "--worker-flags: {} is given by 'harmonics alloc' itself",
             own);
      }
    }
  }

  /// What a job runs.
  [[nodiscard]] std::string script(const std::string& worker, const BatchSystem& batch) const {
    std::string text =
        "#!/bin/sh\n# A worker that 'harmonics alloc' started; it lets it go again.\nexec ";
    const auto add = [&](const std::string& word) { text += shell_quoted(word) + " "; };
    for (const std::string& word :
         {path_of(kFrontProgram).string(), std::string("worker"), std::string("--id"), worker,
          std::string("--scheduler"), access_.scheduler, std::string("--state-dir"),
          state_folder(command_.access.state_dir).string(), std::string("--idle"),
          std::to_string(static_cast<std::int64_t>(command_.idle_s) + kIdleMarginSeconds)}) {
      add(word);
    }
    if (!access_.tls.empty()) {
      add("--tls");
      add(fs::absolute(access_.tls).string());
    }
    if (!access_.token_file.empty()) {
      add("--token-file");
      add(fs::absolute(access_.token_file).string());
    }
    if (!has_flag(worker_words_, "--addr")) text += address_flag();
    if (!has_flag(worker_words_, "--cpus") && !has_flag(worker_words_, "--memory")) {
      text += batch.granted_flags() + " ";
    }
    for (const std::string& word : worker_words_) add(word);
    return text + "\n";
  }

  int run();

 private:
  /// A server of this machine is spoken with on this machine; else a job knows its own name.
  [[nodiscard]] std::string address_flag() const {
    const std::string& to = access_.scheduler;
    const bool here =
        to.starts_with("localhost:") || to.starts_with("127.") || to.starts_with("[::1]");
    return here ? "--addr localhost:0 " : "--addr \"$(hostname):0\" ";
  }

  [[nodiscard]] AllocPicture look(ClusterClient& client) const;
  void take(const AllocStep& step, ClusterClient& client);
  void say(const std::string& event, const std::string& worker, const std::string& text,
           const std::string& job = {}) const;
  bool once(ClusterClient& client);
  void complain(const std::string& problem);
  void check_rights(ClusterClient& client) const;

  const AllocCommand& command_;
  const ServerAccess access_;
  const fs::path folder_;
  std::vector<std::string> worker_words_;
  std::unique_ptr<BatchSystem> batch_;
  Allocator allocator_;
  SteadyClock clock_;
  Pause pause_;
  std::string problem_;  ///< Said last: the same is not said again and again.
};

AllocPicture AllocRun::look(ClusterClient& client) const {
  AllocPicture picture;
  ListTasksQuery query;
  query.states = {"pending"};
  query.brief = true;
  for (const TaskView& task : first_tasks(client, query, kMaxQueueLooked)) {
    picture.queue.push_back({task.id, needs_of(task.spec), std::max(1u, task.spec.gang)});
  }
  for (const WorkerView& worker : client.workers()) {
    const bool away = worker.state == "away" || worker.state == "expired";
    picture.workers.push_back({worker.spec, !away, worker.draining, worker.task_count});
  }
  picture.jobs = batch_->jobs();
  return picture;
}

void AllocRun::say(const std::string& event, const std::string& worker, const std::string& text,
                   const std::string& job) const {
  if (command_.output == OutputStyle::kQuiet) return;
  if (command_.output == OutputStyle::kJson) {
    return write_json(
        Json().set("event", event).set("worker", worker).set("job", job).set("text", text));
  }
  write_text(TextStream::kOutput, escaped(text) + "\n");
}

void AllocRun::take(const AllocStep& step, ClusterClient& client) {
  if (const auto* start = std::get_if<StartWorker>(&step)) {
    try {
      const std::string job = batch_->submit({start->worker, script(start->worker, *batch_),
                                              folder_ / (start->worker + ".out"), command_.flags});
      allocator_.note_started(start->worker, job, clock_.now());
      say("started", start->worker, format("{}: asked for, job {}", start->worker, job), job);
    } catch (const Error& error) {
      allocator_.note_failure(clock_.now());
      throw;
    }
  } else if (const auto* cancel = std::get_if<CancelJob>(&step)) {
    batch_->cancel(cancel->job);
    say("ended", cancel->worker,
        format("{}: let go, job {}: {}", cancel->worker, cancel->job, cancel->reason), cancel->job);
  } else if (const auto* drain = std::get_if<DrainWorker>(&step)) {
    client.drain(drain->worker, drain->drain);
  } else if (const auto* gone = std::get_if<ForgetWorker>(&step)) {
    client.forget(gone->worker);
    say("lost", gone->worker,
        format("{}: its job is gone; its {} tasks start again elsewhere", gone->worker,
               gone->tasks));
  }
}

void AllocRun::complain(const std::string& problem) {
  if (problem != problem_)
    write_text(TextStream::kError, "harmonics alloc: " + escaped(problem) + "\n");
  problem_ = problem;
}

/// One look; false: there is nothing left to do.
bool AllocRun::once(ClusterClient& client) {
  try {
    const AllocPicture picture = look(client);
    for (const AllocStep& step : allocator_.decide(picture, clock_.now())) take(step, client);
    problem_.clear();
    return !command_.down || !allocator_.closed(picture);
  } catch (const Error& error) {
    // Rights do not come by waiting; a server or a batch system that is away comes back.
    if (error.code() == ErrorCode::kPermissionDenied || error.code() == ErrorCode::kUnauthenticated)
      throw;
    complain(error.what());
    return true;
  }
}

/// Who may not drain finds out before any job is made. There is never a worker 0.
void AllocRun::check_rights(ClusterClient& client) const {
  try {
    client.drain(command_.name + "-0", false);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) return;
    if (error.code() != ErrorCode::kPermissionDenied) throw;
    fail(error.code(), "{} ('harmonics alloc' needs a token of the role admin)", error.what());
  }
}

int AllocRun::run() {
  check_name(command_.name);
  batch_ = make_batch_system(command_.system);
  if (command_.dry_run) {
    write_text(TextStream::kOutput, script(command_.name + "-1", *batch_));
    return kExitDone;
  }
  make_state_folder(folder_);
  const FolderLock lock(folder_, "alloc");
  const SignalWatch watch([this](int) { pause_.end(); });
  ClusterClient client(
      client_options(command_.access, {.interrupted = [this] { return pause_.ended(); }}));
  check_rights(client);
  say("watching", "",
      command_.down
          ? format("letting go the workers {}-*", command_.name)
          : format(
                "watching the queue of {}: up to {} workers {}-*; Ctrl-C ends this and leaves them",
                access_.scheduler, command_.max_workers, command_.name));
  while (once(client)) {
    if (!pause_.wait(std::chrono::duration<double>(command_.period_s))) break;
  }
  return kExitDone;
}

}  // namespace

int alloc(const AllocCommand& command) { return AllocRun(command).run(); }

}  // namespace harmonics::inline in_cluster_program
