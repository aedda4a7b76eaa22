#include "guardian.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "process_tree.h"
#include "task_cgroup.h"

namespace harmonics::inline in_worker {
namespace {

constexpr timespec kGuardPeriod = {0, 5'000'000};

/// Reaps what has ended; false when there is no child left.
template <typename Ended>
bool reap_children(Ended ended) {
  int status = 0;
  pid_t pid = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) ended(pid, status);
  return pid == 0 || errno != ECHILD;
}

/// The supervisor's status, once it has ended.
int await_supervisor(pid_t supervisor, const sigset_t& signals) {
  while (true) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&signals, &info);
    if (signal == SIGCHLD) {
      bool ended = false;
      int how = 0;
      reap_children([&](pid_t pid, int status) {
        if (pid != supervisor) return;
        ended = true;
        how = status;
      });
      if (ended) return how;
    } else if (signal > 0 && signal != kGuardianGone) {
      ::kill(supervisor, signal);
    }
  }
}

}  // namespace

sigset_t block_supervision_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, nullptr);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, kGuardianGone}) {
    ::sigaddset(&set, signal);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return set;
}

void kill_all_below(const std::string& folder) {
  const auto run = read_run(folder);
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  while (true) {
    const bool empty = !run || kill_cgroups(run->cgroups);
    signal_tree(::getpid(), SIGKILL);
    if (!reap_children([](pid_t, int) {}) && empty) break;
    ::sigtimedwait(&children, nullptr, &kGuardPeriod);
  }
  if (run) remove_cgroups(run->cgroups);
}

void guard(const std::string& folder, const LauncherEnds& ends) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "harm-guard");
  const sigset_t signals = block_supervision_signals();
  SupervisorRecord record;
  record.guardian = ::getpid();
  record.guardian_ticks = process_start_ticks(record.guardian);
  record.space = ends.space;
  const pid_t supervisor = ::fork();
  if (supervisor == 0) supervise(folder, ends, record);
  if (supervisor < 0) {
    const std::string why = std::string("no process for its supervisor: ") + std::strerror(errno);
    write_end(folder, {RunEnd::kUnable, 0, 0, why});
    const std::string notice = launch_notice(folder, record, false);
    ::send(ends.socket, notice.data(), notice.size(), MSG_NOSIGNAL);
    ::_exit(1);
  }
  ::close(ends.socket);
  ::close(ends.lock);
  const int status = await_supervisor(supervisor, signals);
  const bool by_itself = WIFEXITED(status);
  if (!by_itself || reap_children([](pid_t, int) {})) kill_all_below(folder);
  if (by_itself) ::_exit(WEXITSTATUS(status));
  write_end(folder, {RunEnd::kLost, 0, 0, "its supervisor was killed"});
  ::_exit(1);
}

}  // namespace harmonics::inline in_worker
