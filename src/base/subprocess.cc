#include <harmonics/base/subprocess.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {
namespace {

constexpr const char* kNothing = "/dev/null";

/// Points into the words.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

struct Actions {
  Actions() { ::posix_spawn_file_actions_init(&list); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&list); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  posix_spawn_file_actions_t list;
};

struct Attributes {
  Attributes() { ::posix_spawnattr_init(&list); }
  ~Attributes() { ::posix_spawnattr_destroy(&list); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t list;
};

}  // namespace

ProgramStart::ProgramStart(std::filesystem::path program, std::vector<std::string> words)
    : program_(std::move(program)), words_(std::move(words)) {}

ProgramStart& ProgramStart::place(int ours, int theirs) {
  ends_.push_back({theirs, ours, {}});
  return *this;
}

ProgramStart& ProgramStart::mute(int theirs) {
  ends_.push_back({theirs, -1, {}});
  return *this;
}

ProgramStart& ProgramStart::write_to(int theirs, std::filesystem::path file) {
  ends_.push_back({theirs, -1, std::move(file)});
  return *this;
}

ProgramStart& ProgramStart::environment(std::vector<std::string> variables) {
  variables_ = std::move(variables);
  return *this;
}

ProgramStart& ProgramStart::own_group() {
  own_group_ = true;
  return *this;
}

ProgramStart& ProgramStart::hold_back(std::initializer_list<int> signals) {
  held_back_ = signals;
  return *this;
}

ProgramStart::Started ProgramStart::try_start() const {
  Actions actions;
  for (const End& end : ends_) {
    if (end.ours >= 0) {
      ::posix_spawn_file_actions_adddup2(&actions.list, end.ours, end.theirs);
    } else if (end.file.empty()) {
      ::posix_spawn_file_actions_addopen(&actions.list, end.theirs, kNothing,
                                         end.theirs == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    } else {
      ::posix_spawn_file_actions_addopen(&actions.list, end.theirs, end.file.c_str(),
                                         O_WRONLY | O_CREAT | O_TRUNC, S_IRUSR | S_IWUSR);
    }
  }
  Attributes attributes;
  int flags = own_group_ ? POSIX_SPAWN_SETPGROUP : 0;
  if (held_back_) {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : *held_back_) ::sigaddset(&signals, signal);
    ::posix_spawnattr_setsigmask(&attributes.list, &signals);
    flags |= POSIX_SPAWN_SETSIGMASK;
  }
  ::posix_spawnattr_setflags(&attributes.list, static_cast<short>(flags));
  const std::vector<char*> variables = variables_ ? pointers(*variables_) : std::vector<char*>();
  Started started;
  started.failure = ::posix_spawn(&started.pid, program_.c_str(), &actions.list, &attributes.list,
                                  pointers(words_).data(), variables_ ? variables.data() : environ);
  if (started.failure != 0) started.pid = -1;
  return started;
}

pid_t ProgramStart::start() const {
  const Started started = try_start();
  if (started.failure != 0) {
    fail_errno(started.failure, format("cannot start '{}'", program_.string()));
  }
  return started.pid;
}

int wait_for_program(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::optional<int> ended_program(pid_t child) {
  int status = 0;
  pid_t done = 0;
  while ((done = ::waitpid(child, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (done != child) return std::nullopt;
  return status;
}

void kill_program(pid_t child) {
  if (child <= 0) return;
  ::kill(child, SIGKILL);
  wait_for_program(child);
}

}  // namespace harmonics::inline in_base
