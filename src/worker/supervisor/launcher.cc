#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "guardian.h"
#include "process_tree.h"

namespace harmonics::inline in_worker {
namespace {

constexpr int kSweepPeriodMs = 5;

class Launcher {
 public:
  explicit Launcher(LauncherEnds ends) : ends_(std::move(ends)) {
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignored, nullptr);
    ::sigaction(SIGINT, &ignored, nullptr);
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, nullptr);
    signals_ = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void run() {
    while (true) {
      const short wanted = news_.empty() ? POLLIN : POLLIN | POLLOUT;
      std::array<pollfd, 2> waits = {{{ends_.socket, wanted, 0}, {signals_, POLLIN, 0}}};
      const int patience = unguarded_.empty() ? -1 : kSweepPeriodMs;
      if (::poll(waits.data(), waits.size(), patience) < 0) continue;  // a signal
      if (waits[1].revents != 0) reap();
      if (!unguarded_.empty()) sweep();
      if ((waits[0].revents & POLLOUT) != 0) tell();
      if ((waits[0].revents & ~POLLOUT) != 0 && !launch()) break;
    }
    // The next worker need not wait for the rest.
    ::close(ends_.lock);
    while (!unguarded_.empty()) {
      pollfd wait = {signals_, POLLIN, 0};
      ::poll(&wait, 1, kSweepPeriodMs);
      reap();
      sweep();
    }
  }

 private:
  /// False: the worker is gone.
  bool launch() {
    std::array<char, 4096> message;
    const ssize_t got = ::recv(ends_.socket, message.data(), message.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got <= 0) return false;
    const std::string folder(message.data(), static_cast<std::size_t>(got));
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(signals_);
      guard(folder, ends_);
    }
    if (child < 0) {
      const std::string why = std::string("no process for its guardian: ") + std::strerror(errno);
      write_end(folder, {RunEnd::kUnable, 0, 0, why});
      SupervisorRecord nobody;
      nobody.guardian = -1;
      news_.push_back(launch_notice(folder, nobody, false));
      return true;
    }
    folders_[child] = folder;
    return true;
  }

  void reap() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) == sizeof info) {
    }
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto known = folders_.find(child);
      if (known == folders_.end()) continue;
      // One that ended well has said all; of another the worker may not even know that it was. A
      // guardian that ends by itself leaves nothing behind, one that was killed may.
      if (!WIFEXITED(status)) {
        unguarded_.push_back(known->second);
      } else if (WEXITSTATUS(status) != 0) {
        news_.push_back(launch_notice(known->second, {}, false));
      }
      folders_.erase(known);
    }
  }

  /// What killed guardians left has become ours: every child that is no guardian. Not to be told
  /// apart by attempt, and none of it may live.
  void sweep() {
    bool left = false;
    for (const pid_t child : children_of(::getpid())) {
      if (folders_.contains(child)) continue;
      left = true;
      // A supervisor first: it must not take the death of its task for the task's own.
      const std::vector<pid_t> below = descendants_of(child);
      ::kill(child, SIGKILL);
      for (const pid_t pid : below) ::kill(pid, SIGKILL);
    }
    if (left) return;
    for (const std::string& folder : unguarded_) {
      write_end(folder, {RunEnd::kLost, 0, 0, "its guardian was killed"});
      news_.push_back(launch_notice(folder, {}, false));
    }
    unguarded_.clear();
  }

  /// Never waits: the worker may be waiting for us.
  void tell() {
    while (!news_.empty()) {
      const std::string& text = news_.front();
      if (::send(ends_.socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
      news_.pop_front();
    }
  }

  const LauncherEnds ends_;
  int signals_ = -1;
  std::map<pid_t, std::string> folders_;  ///< Of guardians that live; the worker bounds them.
  std::vector<std::string> unguarded_;    ///< Of those that were killed, until all is gone.
  std::deque<std::string> news_;          ///< At most one for each of them.
};

}  // namespace

int launch_supervisors(LauncherEnds ends) {
  ::prctl(PR_SET_NAME, "harm-launcher");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ends.space = process_space();
  Launcher(std::move(ends)).run();
  return 0;
}

}  // namespace harmonics::inline in_worker
