#include "supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include <harmonics/base/listed.h>

#include "guardian.h"
#include "output_file.h"
#include "process_tree.h"
#include "run_record.h"
#include "task_cgroup.h"
#include "task_process.h"

namespace harmonics::inline in_worker {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();
/// How often the tree is killed again until nothing is left of it.
constexpr std::uint64_t kKillPeriod = 20 * kMillisecond;
/// How often the newest line of progress is written down.
constexpr std::uint64_t kKeepProgressPeriod = 200 * kMillisecond;
constexpr std::uint64_t kProgressSegmentBytes = 1 << 20;
constexpr std::uint64_t kProgressStreamBytes = 8 << 20;
constexpr std::size_t kMaxProgressLine = 4096;
/// Read from one pipe before the others get their turn.
constexpr std::size_t kMaxReadPerTurn = 1 << 20;

/// The task's lines of progress; too long a line is dropped.
class ProgressLines {
 public:
  ProgressLines(const std::string& folder)
      : path_(folder + "/progress"),
        all_(folder + "/metrics", kProgressSegmentBytes, kProgressStreamBytes) {}

  void add(std::string_view bytes) {
    for (std::size_t end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
      line_.append(bytes.substr(0, std::min(end, kMaxProgressLine)));
      if (line_.size() < kMaxProgressLine && !line_.empty()) {
        last_ = line_ + "\n";
        all_.append(last_);
        fresh_ = true;
      }
      line_.clear();
      bytes.remove_prefix(end + 1);
    }
    line_.append(bytes.substr(0, kMaxProgressLine - std::min(line_.size(), kMaxProgressLine)));
  }
  std::uint64_t due() const { return fresh_ ? written_at_ + kKeepProgressPeriod : kForever; }
  void write_down(std::uint64_t now) {
    if (!fresh_) return;
    replace_file(path_, last_);
    fresh_ = false;
    written_at_ = now;
  }

 private:
  std::string path_;
  OutputFile all_;
  std::string line_;
  std::string last_;
  bool fresh_ = false;
  std::uint64_t written_at_ = 0;
};

class Supervision {
 public:
  Supervision(std::string folder, RunRecord run, StartedTask task, const LauncherEnds& ends,
              pid_t guardian)
      : folder_(std::move(folder)),
        run_(std::move(run)),
        main_(task.pid),
        pipes_(task.pipes),
        socket_(ends.socket),
        out_(folder_ + "/out", run_.segment_bytes, run_.stream_bytes),
        err_(folder_ + "/err", run_.segment_bytes, run_.stream_bytes),
        progress_(folder_),
        guardian_(guardian) {
    if (run_.timeout_ms > 0) time_limit_ = boottime_ns() + run_.timeout_ms * kMillisecond;
    if ((run_.lease_bound || run_.hold_bound) && !run_.lease_file.empty()) {
      lease_ = ::open(run_.lease_file.c_str(), O_RDONLY | O_CLOEXEC);
    }
  }

  /// Until the whole tree is gone.
  void watch(int signals, std::string notice) {
    notice_ = std::move(notice);
    while (true) {
      tell_worker();
      reap();
      if (all_gone_) break;
      wait_for_something(signals);
      keep_limits(boottime_ns());
    }
    drain_pipes();
    progress_.write_down(boottime_ns());
    // Over before the worker had room for the news: now there is time to wait for that.
    if (socket_ >= 0) ::send(socket_, notice_.data(), notice_.size(), MSG_NOSIGNAL);
  }

  /// Once it is over: how it ended, with its artifacts gathered and its cgroups gone.
  EndRecord finish() const {
    EndRecord end = result();
    add_usage(end);
    const auto add = [&end](const std::string& text) {
      if (!text.empty()) add_item(end.message, text, "; ");
    };
    if (memory_ran_out(run_.cgroups)) {
      add("it needed more memory than its " + std::to_string(run_.memory_mb) +
          " MB (memory_mb), and the kernel killed it");
    }
    remove_cgroups(run_.cgroups);
    if (!run_.artifacts.patterns.empty()) {
      add(keep_artifacts(run_.artifacts, working_folder(run_, folder_), folder_,
                         run_.user ? &*run_.user : nullptr));
    }
    return end;
  }

 private:
  /// Every process of the task was this one's child in the end.
  static void add_usage(EndRecord& end) {
    rusage used{};
    if (::getrusage(RUSAGE_CHILDREN, &used) != 0) return;
    const auto milliseconds = [](const timeval& time) {
      return static_cast<std::uint64_t>(time.tv_sec) * 1000 +
             static_cast<std::uint64_t>(time.tv_usec) / 1000;
    };
    end.cpu_ms = milliseconds(used.ru_utime) + milliseconds(used.ru_stime);
    end.peak_memory_kb = static_cast<std::uint64_t>(used.ru_maxrss);
  }
  EndRecord result() const {
    EndRecord end;
    if (WIFEXITED(status_)) end.exit_code = WEXITSTATUS(status_);
    if (WIFSIGNALED(status_)) end.signal = WTERMSIG(status_);
    end.kind = stopped_as_.value_or(WIFSIGNALED(status_) ? RunEnd::kSignalled : RunEnd::kExited);
    // Whoever sees to what a killed guardian left may have been faster than its signal.
    const bool guarded = guarded_ && ::getppid() == guardian_;
    if (!guarded && end.kind == RunEnd::kSignalled) end.kind = RunEnd::kLost;
    if (end.kind == RunEnd::kTimedOut) {
      end.message = "stopped at its time limit of " + std::to_string(run_.timeout_ms / 1000) + " s";
    }
    if (!guarded && end.kind == RunEnd::kLost) end.message = "its guardian was killed";
    const std::uint64_t dropped = out_.dropped_bytes() + err_.dropped_bytes();
    if (dropped > 0) {
      add_item(end.message, std::to_string(dropped) + " bytes of output could not be written",
               "; ");
    }
    return end;
  }

  void tell_worker() {
    if (socket_ < 0) return;
    const ssize_t sent =
        ::send(socket_, notice_.data(), notice_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    ::close(socket_);
    socket_ = -1;
  }

  void reap() {
    int status = 0;
    pid_t pid = 0;
    bool ended = false;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != main_) continue;
      status_ = status;
      main_ = -1;
      ended = true;
    }
    all_gone_ = pid < 0 && errno == ECHILD;
    // What the program left behind goes with it, also what it started while it was being stopped.
    if (ended && !all_gone_) {
      ask_tree_to_end();
      kill_at_ = std::min(kill_at_, boottime_ns() + run_.grace_ms * kMillisecond);
    }
  }

  void wait_for_something(int signals) {
    std::array<pollfd, 5> waits = {{{signals, POLLIN, 0},
                                    {pipes_.out, POLLIN, 0},
                                    {pipes_.err, POLLIN, 0},
                                    {pipes_.progress, POLLIN, 0},
                                    {socket_, POLLOUT, 0}}};
    const std::uint64_t now = boottime_ns();
    const std::uint64_t wake = next_wake();
    timespec limit{};
    if (wake != kForever) {
      const std::uint64_t left = wake > now ? wake - now : 0;
      limit.tv_sec = static_cast<time_t>(left / 1'000'000'000);
      limit.tv_nsec = static_cast<long>(left % 1'000'000'000);
    }
    if (::ppoll(waits.data(), waits.size(), wake == kForever ? nullptr : &limit, nullptr) <= 0) {
      return;
    }
    if (waits[0].revents != 0) read_signals(signals);
    if (waits[1].revents != 0) pump(pipes_.out, [this](auto bytes) { out_.append(bytes); });
    if (waits[2].revents != 0) pump(pipes_.err, [this](auto bytes) { err_.append(bytes); });
    if (waits[3].revents != 0) pump(pipes_.progress, [this](auto bytes) { progress_.add(bytes); });
  }

  /// Of the lease, or of the hold if that is what binds it.
  std::uint64_t lease_end() const {
    std::uint64_t end = 0;
    const auto read_at = [&](off_t place) {
      return ::pread(lease_, &end, sizeof end, place) == sizeof end && end != 0;
    };
    if (lease_ < 0) return kForever;
    if (run_.hold_bound && read_at(sizeof end)) return end;
    return read_at(0) ? end : kForever;
  }

  /// The moment from which there is just the grace left before the lease ends.
  std::uint64_t lease_stop() const {
    const std::uint64_t end = lease_end();
    const std::uint64_t grace = run_.grace_ms * kMillisecond;
    return end == kForever ? kForever : end - std::min(end, grace);
  }

  std::uint64_t next_wake() const {
    if (kill_at_ != kForever) return std::min(kill_at_, progress_.due());
    return std::min({time_limit_, lease_stop(), progress_.due()});
  }

  void keep_limits(std::uint64_t now) {
    if (now >= progress_.due()) progress_.write_down(now);
    if (kill_at_ == kForever && now >= time_limit_) begin_stop(RunEnd::kTimedOut, run_.grace_ms);
    if (kill_at_ == kForever && now >= lease_stop()) {
      const std::uint64_t end = lease_end();
      begin_stop(RunEnd::kLeaseLost, end > now ? (end - now) / kMillisecond : 0);
    }
    if (now >= kill_at_) {
      kill_cgroups(run_.cgroups);
      signal_tree(::getpid(), SIGKILL);
      kill_at_ = now + kKillPeriod;
    }
  }

  void begin_stop(RunEnd as, std::uint64_t grace_ms) {
    // A program that had ended by itself keeps its own result.
    if (main_ >= 0 && !stopped_as_) stopped_as_ = as;
    stop_tree(boottime_ns() + grace_ms * kMillisecond);
  }

  void stop_tree(std::uint64_t kill_at) {
    if (kill_at_ == kForever) ask_tree_to_end();
    kill_at_ = std::min(kill_at_, kill_at);
  }

  void ask_tree_to_end() {
    signal_tree(::getpid(), SIGTERM);
    signal_tree(::getpid(), SIGCONT);
  }

  void read_signals(int signals) {
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGUSR1) {
        if (const auto stop = read_stop(folder_)) begin_stop(stop->as, stop->grace_ms);
      } else if (info.ssi_signo == kGuardianGone) {
        begin_stop(RunEnd::kLost, 0);
        guarded_ = false;
      } else if (info.ssi_signo != SIGCHLD) {
        begin_stop(RunEnd::kLost, run_.grace_ms);
      }
    }
  }

  template <typename Take>
  void pump(int& pipe, Take take) {
    std::array<char, 64 << 10> chunk;
    for (std::size_t total = 0; pipe >= 0 && total < kMaxReadPerTurn;) {
      const ssize_t got = ::read(pipe, chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        ::close(pipe);
        pipe = -1;
        return;
      }
      take(std::string_view(chunk.data(), static_cast<std::size_t>(got)));
      total += static_cast<std::size_t>(got);
      if (static_cast<std::size_t>(got) < chunk.size()) return;
    }
  }

  void drain_pipes() {
    pump(pipes_.out, [this](auto bytes) { out_.append(bytes); });
    pump(pipes_.err, [this](auto bytes) { err_.append(bytes); });
    pump(pipes_.progress, [this](auto bytes) { progress_.add(bytes); });
  }

  std::string folder_;
  RunRecord run_;
  pid_t main_;  ///< -1 once it has ended.
  TaskPipes pipes_;
  int socket_;
  int lease_ = -1;
  std::string notice_;
  OutputFile out_;
  OutputFile err_;
  ProgressLines progress_;
  pid_t guardian_;
  int status_ = 0;
  bool all_gone_ = false;
  bool guarded_ = true;
  std::optional<RunEnd> stopped_as_;
  std::uint64_t time_limit_ = kForever;
  std::uint64_t kill_at_ = kForever;
};

[[noreturn]] void refuse(const std::string& folder, int socket, const std::string& notice,
                         const EndRecord& end) {
  write_end(folder, end);
  ::send(socket, notice.data(), notice.size(), MSG_NOSIGNAL);
  ::_exit(1);
}

}  // namespace

std::string launch_notice(const std::string& folder, const SupervisorRecord& self, bool launched) {
  return folder.substr(folder.rfind('/') + 1) + " " + std::to_string(self.guardian) + " " +
         std::to_string(self.guardian_ticks) + (launched ? " 1" : " 0");
}

void supervise(const std::string& folder, const LauncherEnds& ends, SupervisorRecord record) {
  // One whose guardian is gone before it began has started nothing, and does not.
  ::prctl(PR_SET_PDEATHSIG, kGuardianGone);
  if (::getppid() != record.guardian) ::_exit(1);
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "harm-supervise");
  const sigset_t set = block_supervision_signals();
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  record.pid = ::getpid();
  record.start_ticks = process_start_ticks(record.pid);
  const bool recorded = write_supervisor(folder, record);
  const int reason = errno;
  ::close(ends.lock);
  auto run = read_run(folder);
  if (!recorded || !run) {
    refuse(folder, ends.socket, launch_notice(folder, record, false),
           {RunEnd::kUnable, 0, 0,
            recorded ? "its record cannot be read: '" + folder + "/run'"
                     : std::string("its record cannot be written: ") + std::strerror(reason)});
  }
  StartedTask task = start_task(*run, folder);
  if (task.pid < 0) {
    remove_cgroups(run->cgroups);
    refuse(folder, ends.socket, launch_notice(folder, record, false),
           {task.unable ? RunEnd::kUnable : RunEnd::kRefused, 0, 0, task.failure});
  }
  // Its death is not told while this process looks with the rights of the task's user.
  if (::getppid() != record.guardian) ::raise(kGuardianGone);
  Supervision supervision(folder, std::move(*run), task, ends, record.guardian);
  supervision.watch(signals, launch_notice(folder, record, true));
  ::_exit(write_end(folder, supervision.finish()) ? 0 : 1);
}

}  // namespace harmonics::inline in_worker
