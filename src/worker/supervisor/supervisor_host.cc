#include "supervisor_host.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "process_tree.h"
#include "supervise.h"
#include "task_cgroup.h"

namespace harmonics::inline in_worker {
namespace {

namespace fs = std::filesystem;

/// Launchers that may die, one after another, under one start.
constexpr int kMaxLauncherDeaths = 3;
/// Descriptors of ours start here, clear of the numbers that the launcher gets.
constexpr int kLowestDescriptor = 10;
constexpr int kLauncherSocket = 3;
constexpr int kLauncherLock = 4;
constexpr std::chrono::milliseconds kLockPeriod(5);
/// How often what could not be shown to be gone is looked at again.
constexpr std::chrono::milliseconds kSettlePeriod(500);

Descriptor raised(Descriptor low, const char* what) {
  Descriptor higher(low ? ::fcntl(low.get(), F_DUPFD_CLOEXEC, kLowestDescriptor) : -1);
  if (!higher) fail_errno(errno, format("worker: {}", what));
  return higher;
}

Descriptor process_descriptor(pid_t pid) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void make_private_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    fail_errno(error.value(), format("worker: cannot make the folder '{}'", path.string()));
  fs::permissions(path, fs::perms::owner_all, error);
}

}  // namespace

SupervisorHost::SupervisorHost(fs::path folder, fs::path program, Nanoseconds patience,
                               std::uint64_t keep_bytes)
    : folder_(fs::absolute(std::move(folder))),
      program_(std::move(program)),
      keep_bytes_(keep_bytes) {
  make_private_folder(folder_ / "attempts");
  make_private_folder(folder_ / "kept");
  make_private_folder(folder_ / "spare");
  take_lock(patience);
  lease_ = raised(
      Descriptor(::open(lease_file().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)),
      "cannot open the lease file");
  events_ = raised(Descriptor(::epoll_create1(EPOLL_CLOEXEC)), "no epoll");
  wake_ = raised(Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), "no eventfd");
  await(wake_);
  start_launcher();
}

void SupervisorHost::await(const Descriptor& descriptor) const {
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = descriptor.get();
  ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor.get(), &interest);
}

void SupervisorHost::take_lock(Nanoseconds patience) {
  const fs::path path = folder_ / "launcher.lock";
  lock_ = raised(Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)),
                 "cannot open the launcher's lock");
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > end) {
      fail(ErrorCode::kUnavailable,
           "worker: '{}' is in use: another worker runs there, or the launcher of one that has "
           "ended still does; choose another --state-dir or --id, or wait",
           folder_.string());
    }
    std::this_thread::sleep_for(kLockPeriod);
  }
}

void SupervisorHost::start_launcher() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fail_errno(errno, "worker: no socket for the launcher");
  }
  Descriptor own(ends[0]);
  Descriptor theirs(ends[1]);
  launcher_ = raised(std::move(own), "no socket for the launcher");
  theirs = raised(std::move(theirs), "no socket for the launcher");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), kLauncherSocket);
  ::posix_spawn_file_actions_adddup2(&actions, lock_.get(), kLauncherLock);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  std::string program = program_.string();
  std::string socket = std::to_string(kLauncherSocket);
  std::string lock = std::to_string(kLauncherLock);
  std::array<char*, 4> argv = {program.data(), socket.data(), lock.data(), nullptr};
  pid_t pid = 0;
  const int failure =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    fail_errno(failure,
               format("worker: cannot start '{}', which belongs beside this program", program));
  }
  await(launcher_);
}

std::string SupervisorHost::attempt_folder(const std::string& attempt) const {
  return (folder_ / "attempts" / attempt).string();
}

fs::path SupervisorHost::folder_of(const fs::path& folder, const std::string& attempt) {
  std::error_code error;
  for (const char* part : {"attempts", "kept"}) {
    const fs::path path = folder / part / attempt;
    if (fs::is_directory(path, error)) return path;
  }
  return {};
}

void SupervisorHost::start(const RunRecord& run, std::span<const TaskFile> files) {
  const std::string folder = attempt_folder(run.attempt);
  if (!make_attempt_folder(folder, run, files)) {
    const int reason = errno;
    remove_cgroups(run.cgroups);
    news_.push_back({run.attempt, EndRecord{RunEnd::kUnable, 0, 0,
                                            format("the worker cannot write '{}': {}", folder,
                                                   std::strerror(reason))}});
    return;
  }
  // A launcher that is gone takes along what it was told before, but not this attempt.
  for (int deaths = 0; ::send(launcher_.get(), folder.data(), folder.size(), MSG_NOSIGNAL) < 0;) {
    if (errno == EINTR) continue;
    launcher_died();
    if (++deaths < kMaxLauncherDeaths) continue;
    news_.push_back({run.attempt, settle(run.attempt, true,
                                         {RunEnd::kUnable, 0, 0, "no launcher stays alive"})});
    return;
  }
  watches_[run.attempt] = {};
}

void SupervisorHost::stop(const std::string& attempt, const StopOrder& request) {
  const auto watch = watches_.find(attempt);
  if (watch == watches_.end()) return;
  write_stop(attempt_folder(attempt), request);
  // Without a descriptor the launch is awaited: `on_notice` looks for a stop that came before.
  if (watch->second.process) {
    ::syscall(SYS_pidfd_send_signal, watch->second.process.get(), SIGUSR1, nullptr, 0);
  }
}

void SupervisorHost::set_lease(LeaseEnds ends) {
  const LeaseEnds before = lease();
  const std::array<std::uint64_t, 2> words = {ends.lease_ns, std::max(ends.lease_ns, ends.hold_ns)};
  if (::pwrite(lease_.get(), words.data(), sizeof words, 0) != static_cast<ssize_t>(sizeof words)) {
    log_warn("worker", "cannot write '{}': {}", lease_file().string(), std::strerror(errno));
  }
  if (ends.lease_ns >= before.lease_ns && ends.hold_ns >= before.hold_ns) return;
  // They sleep until the end that they know of: an earlier one they must be told.
  for (const auto& [attempt, watch] : watches_) {
    if (!watch.process) continue;
    ::syscall(SYS_pidfd_send_signal, watch.process.get(), SIGUSR1, nullptr, 0);
  }
}

SupervisorHost::LeaseEnds SupervisorHost::lease() const {
  std::array<std::uint64_t, 2> words{};
  // An earlier version wrote the first alone.
  const ssize_t got = ::pread(lease_.get(), words.data(), sizeof words, 0);
  if (got < static_cast<ssize_t>(sizeof words[0])) return {};
  return {words[0], std::max(words[0], words[1])};
}

bool SupervisorHost::attach(const std::string& attempt, pid_t pid, std::uint64_t start_ticks) {
  Descriptor process = pid > 0 ? process_descriptor(pid) : Descriptor();
  // The descriptor holds on to whatever has that number now; only then is its start time certain.
  if (!process || process_start_ticks(pid) != start_ticks) return false;
  await(process);
  by_descriptor_[process.get()] = attempt;
  watches_[attempt].process = std::move(process);
  return true;
}

/// The guardian ends last; the supervisor outlives it only to end the task.
bool SupervisorHost::attach_recorded(const std::string& attempt) {
  const auto record = read_supervisor(attempt_folder(attempt));
  if (!record || !is_this_space(record->space)) return false;
  return attach(attempt, record->guardian, record->guardian_ticks) ||
         attach(attempt, record->pid, record->start_ticks);
}

void SupervisorHost::on_notice(const std::string& text) {
  std::istringstream words(text);
  std::string attempt;
  pid_t guardian = 0;
  std::uint64_t start_ticks = 0;
  int launched = 0;
  words >> attempt >> guardian >> start_ticks >> launched;
  if (watches_.find(attempt) == watches_.end()) return;
  if (launched == 0) {
    // With a process id it is word that nothing was started; without, its guardian is gone.
    if (guardian == 0) return finish(attempt, true);
    return finish(attempt, true, {RunEnd::kUnable, 0, 0, "its supervisor cannot write its record"});
  }
  news_.push_back({attempt, std::nullopt});
  if (!attach(attempt, guardian, start_ticks)) {
    finish(attempt, false);
  } else if (::access((attempt_folder(attempt) + "/stop").c_str(), F_OK) == 0) {
    ::syscall(SYS_pidfd_send_signal, watches_[attempt].process.get(), SIGUSR1, nullptr, 0);
  }
}

namespace {

/// Kills what can be found of an attempt; whether that shows that nothing of it is left.
bool kill_remains(const RunRecord& run) {
  bool held = false;
  for (int round = 0; round < kKillRounds && !run.cgroups.empty() && !held; ++round) {
    held = kill_cgroups(run.cgroups);
    if (!held) std::this_thread::sleep_for(kLockPeriod / 5);
  }
  const auto mark = std::ranges::find(run.environment, std::string(kAttemptMark),
                                      &std::pair<std::string, std::string>::first);
  const bool unmarked = mark == run.environment.end() || kill_marked(mark->second, kKillRounds);
  return held && unmarked;
}

}  // namespace

std::optional<EndRecord> SupervisorHost::settle(const std::string& attempt, bool shown_gone,
                                                EndRecord otherwise) {
  const std::string folder = attempt_folder(attempt);
  std::error_code error;
  if (!fs::exists(folder, error)) return otherwise;  // by somebody who knows that it is gone
  if (const auto end = read_end(folder)) return *end;
  const auto run = read_run(folder);
  const auto supervisor = read_supervisor(folder);
  // Nothing is started before the supervisor is recorded.
  const bool never_ran = !supervisor || !is_this_space(supervisor->space);
  if (run && !kill_remains(*run) && !shown_gone && !never_ran) return std::nullopt;
  if (run) remove_cgroups(run->cgroups);
  write_end(folder, otherwise);
  return otherwise;
}

void SupervisorHost::finish(const std::string& attempt, bool shown_gone, EndRecord otherwise) {
  const auto watch = watches_.find(attempt);
  if (watch == watches_.end()) return;
  if (watch->second.process) {
    by_descriptor_.erase(watch->second.process.get());
    watch->second.process.reset();
  }
  const bool over = shown_gone || read_end(attempt_folder(attempt));
  if (!over && attach_recorded(attempt)) return;
  auto end = settle(attempt, over, std::move(otherwise));
  if (!end) {
    if (watch->second.unsettled == 0) {
      ++unsettled_;
      settled_at_ = std::chrono::steady_clock::now();
    }
    // At first the launcher may be about to tell that it is.
    if (++watch->second.unsettled == 2) {
      log_warn("worker",
               "attempt {} keeps its devices: its supervisor and its guardian were killed, and it "
               "is in no cgroup that shows that nothing of it runs any more; when you have seen to "
               "that, remove the folder '{}'",
               attempt, attempt_folder(attempt));
    }
    return;
  }
  if (watch->second.unsettled > 0) --unsettled_;
  watches_.erase(watch);
  news_.push_back({attempt, std::move(*end)});
}

void SupervisorHost::settle_again() {
  const auto now = std::chrono::steady_clock::now();
  if (now < settled_at_ + kSettlePeriod) return;
  settled_at_ = now;
  std::vector<std::string> attempts;
  for (const auto& [attempt, watch] : watches_) {
    if (watch.unsettled > 0) attempts.push_back(attempt);
  }
  for (const std::string& attempt : attempts) finish(attempt, false);
}

void SupervisorHost::launcher_died() {
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, launcher_.get(), nullptr);
  launcher_.reset();
  log_warn("worker", "the launcher of supervisors has ended; starting another");
  start_launcher();
  // Every supervisor that it had forked has told us before the socket closed.
  std::vector<std::string> unstarted;
  for (const auto& [attempt, watch] : watches_) {
    if (!watch.process && watch.unsettled == 0) unstarted.push_back(attempt);
  }
  for (const std::string& attempt : unstarted) finish(attempt, false);
}

void SupervisorHost::hear_launcher() {
  std::array<char, kMaxLaunchNotice> text;
  while (true) {
    const ssize_t got = ::recv(launcher_.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (got > 0) {
      on_notice(std::string(text.data(), static_cast<std::size_t>(got)));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      return;
    } else {
      launcher_died();
      return;
    }
  }
}

std::vector<SupervisorEvent> SupervisorHost::wait(Nanoseconds timeout) {
  std::array<epoll_event, 256> ready;
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  constexpr std::int64_t kMaxWaitMs = 3600 * 1000;
  const std::int64_t most = unsettled_ > 0 ? kSettlePeriod.count() : kMaxWaitMs;
  const int patience =
      news_.empty() ? static_cast<int>(std::clamp<std::int64_t>(limit.count(), 0, most)) : 0;
  const int count =
      ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), patience);
  // First those that have ended, by name: what the launcher says opens descriptors, and a number
  // that was closed a moment ago would come back as another attempt's.
  std::vector<std::string> exited;
  bool launcher_spoke = false;
  for (int i = 0; i < count; ++i) {
    const int descriptor = ready[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == wake_.get()) {
      std::uint64_t value = 0;
      static_cast<void>(::read(wake_.get(), &value, sizeof value));
    } else if (descriptor == launcher_.get()) {
      launcher_spoke = true;
    } else if (const auto known = by_descriptor_.find(descriptor); known != by_descriptor_.end()) {
      exited.push_back(known->second);
    }
  }
  for (const std::string& attempt : exited) finish(attempt, false);
  if (launcher_spoke) hear_launcher();
  if (unsettled_ > 0) settle_again();
  return std::exchange(news_, {});
}

void SupervisorHost::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

}  // namespace harmonics::inline in_worker
