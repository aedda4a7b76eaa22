#include "task_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "cgroup_birth.h"
#include "task_cgroup.h"

namespace harmonics::inline in_worker {
namespace {

/// All that the child touches, made before it exists: it shares our memory until it is another
/// program, so it must not allocate.
struct ChildPlan {
  std::vector<char*> argv;
  std::vector<char*> envp;
  const char* program = nullptr;
  const char* folder = nullptr;
  const TaskCredentials* user = nullptr;                    ///< Null: ours.
  std::array<const char*, kMaxTaskCgroups> cgroup_procs{};  ///< Null: no more.
  int null = -1;
  std::array<int, 3> writers{};  ///< Output, error, progress.
  pid_t parent = 0;
  // Written by the child.
  volatile int error = 0;
  const char* volatile step = "";
};

constexpr const char* kStart = "cannot start";

/// Reasons that have nothing to do with what the task asked for.
bool machine_lacks(int error) {
  return error == ENOMEM || error == EAGAIN || error == EMFILE || error == ENFILE ||
         error == ENOSPC || error == EIO;
}

[[noreturn]] void give_up(ChildPlan& plan, const char* step) {
  plan.error = errno;
  plan.step = step;
  ::_exit(127);
}

void enter_cgroups(ChildPlan& plan) {
  for (const char* file : plan.cgroup_procs) {
    if (file == nullptr) return;
    const int procs = ::open(file, O_WRONLY | O_CLOEXEC);
    if (procs < 0 || ::write(procs, "0", 1) != 1) give_up(plan, "cannot enter its cgroup for");
    ::close(procs);
  }
}

[[noreturn]] void become_task(ChildPlan& plan) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);
  enter_cgroups(plan);
  // The pipes have numbers above the ones that they are moved to (see open_pipe).
  if (::dup2(plan.null, STDIN_FILENO) < 0 || ::dup2(plan.writers[0], STDOUT_FILENO) < 0 ||
      ::dup2(plan.writers[1], STDERR_FILENO) < 0 ||
      ::dup2(plan.writers[2], kProgressDescriptor) < 0) {
    give_up(plan, "cannot connect its output");
  }
  if (plan.user != nullptr) {
    if (!become_user(*plan.user)) give_up(plan, "cannot become the user for");
    // Becoming another clears it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127);
  }
  if (::chdir(plan.folder) != 0) give_up(plan, "cannot enter its working directory");
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(plan.program, plan.argv.data(), plan.envp.data());
  give_up(plan, kStart);
}

__attribute__((noinline)) pid_t spawn_here(ChildPlan& plan) {
  const pid_t pid = ::vfork();
  if (pid == 0) become_task(plan);
  return pid;
}

/// Born in its cgroup of v2 where the kernel can do that, since to move there costs a millisecond
/// and stops all forks of the machine meanwhile.
pid_t spawn(ChildPlan& plan, const std::string& unified) {
  if (!unified.empty()) {
    const int folder = ::open(unified.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const auto others = plan.cgroup_procs;
    std::size_t kept = 0;
    plan.cgroup_procs = {};
    for (const char* file : others) {
      if (file != nullptr && unified + "/cgroup.procs" != file) plan.cgroup_procs[kept++] = file;
    }
    const pid_t pid =
        folder < 0
            ? -1
            : vfork_into_cgroup(
                  folder, [](void* of) { become_task(*static_cast<ChildPlan*>(of)); }, &plan);
    if (folder >= 0) ::close(folder);
    if (pid >= 0) return pid;
    plan.cgroup_procs = others;
  }
  return spawn_here(plan);
}

std::string_view value_of(const RunRecord& run, std::string_view key) {
  for (const auto& [name, value] : run.environment) {
    if (name == key) return value;
  }
  return {};
}

/// As a shell would: a name with a slash is a path, another is looked for in the task's own PATH.
std::string find_program(const RunRecord& run) {
  const std::string& name = run.command.front();
  if (name.find('/') != name.npos) return name;
  const AsUser rights(run.user ? &*run.user : nullptr);
  if (!rights.good()) return {};
  std::string_view path = value_of(run, "PATH");
  if (path.empty()) path = "/usr/bin:/bin";
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    const std::string candidate = std::string(path.substr(0, colon)) + "/" + name;
    struct stat status {};
    if (::faccessat(AT_FDCWD, candidate.c_str(), X_OK, AT_EACCESS) == 0 &&
        ::stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      return candidate;
    }
    path.remove_prefix(colon == path.npos ? path.size() : colon + 1);
  }
  return {};
}

/// A pipe whose ends lie above kProgressDescriptor, ours without blocking. It belongs to the task's
/// user, who may open it again by name (/dev/stdout).
bool open_pipe(int& reader, int& writer, const TaskCredentials* user) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  for (int& end : ends) {
    if (end > kProgressDescriptor) continue;
    const int higher = ::fcntl(end, F_DUPFD_CLOEXEC, kProgressDescriptor + 1);
    ::close(end);
    end = higher;
  }
  if (user != nullptr && ::fchown(ends[1], user->uid, user->gid) != 0) return false;
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  reader = ends[0];
  writer = ends[1];
  return true;
}

void close_all(TaskPipes& pipes) {
  for (int* end : {&pipes.out, &pipes.err, &pipes.progress}) {
    if (*end >= 0) ::close(*end);
    *end = -1;
  }
}

}  // namespace

StartedTask start_task(const RunRecord& run, const std::string& folder) {
  StartedTask task;
  const std::string program = find_program(run);
  if (program.empty()) {
    task.failure = "there is no program '" + run.command.front() + "' in the task's PATH (" +
                   std::string(value_of(run, "PATH")) + ")";
    return task;
  }
  ChildPlan plan;
  std::vector<std::string> entries;
  for (const auto& [key, value] : run.environment) entries.push_back(key + "=" + value);
  for (std::string& entry : entries) plan.envp.push_back(entry.data());
  plan.envp.push_back(nullptr);
  for (const std::string& word : run.command) plan.argv.push_back(const_cast<char*>(word.c_str()));
  plan.argv.push_back(nullptr);
  plan.program = program.c_str();
  const std::string working_dir = working_folder(run, folder);
  plan.folder = working_dir.c_str();
  plan.user = run.user ? &*run.user : nullptr;
  std::vector<std::string> procs;
  for (const std::string& cgroup : run.cgroups) procs.push_back(cgroup + "/cgroup.procs");
  for (std::size_t i = 0; i < std::min(procs.size(), kMaxTaskCgroups); ++i) {
    plan.cgroup_procs[i] = procs[i].c_str();
  }
  plan.parent = ::getpid();
  plan.null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (plan.null < 0 || !open_pipe(task.pipes.out, plan.writers[0], plan.user) ||
      !open_pipe(task.pipes.err, plan.writers[1], plan.user) ||
      !open_pipe(task.pipes.progress, plan.writers[2], plan.user)) {
    task.failure = std::string("no pipe for its output: ") + std::strerror(errno);
    task.unable = true;
    close_all(task.pipes);
    return task;
  }
  task.pid = spawn(plan, unified_cgroup(run.cgroups));
  if (task.pid < 0) {
    task.failure = std::string("no process for it: ") + std::strerror(errno);
    task.unable = true;
  } else if (plan.error != 0) {
    const bool about_folder = std::string_view(plan.step).ends_with("directory");
    const bool own_folder = about_folder && run.working_dir.empty();
    const bool about_task = plan.step == kStart || (about_folder && !own_folder);
    task.unable = !about_task || machine_lacks(plan.error);
    task.failure = std::string(plan.step) + " '" + (about_folder ? working_dir : program) +
                   "': " + std::strerror(plan.error);
    ::waitpid(task.pid, nullptr, 0);
    task.pid = -1;
  }
  for (const int writer : plan.writers) ::close(writer);
  ::close(plan.null);
  if (task.pid < 0) close_all(task.pipes);
  return task;
}

}  // namespace harmonics::inline in_worker
