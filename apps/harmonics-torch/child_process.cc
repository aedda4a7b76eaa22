#include "child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_torch_program {
namespace {

// Where a child finds the writing end of its events.
constexpr int kChildEvents = 3;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "cannot make a pipe");
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }

  Descriptor reader;
  Descriptor writer;
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Reads what is there; closes the descriptor at its end.
void read_available(Descriptor& descriptor, std::string& text) {
  std::array<char, 16384> chunk;
  while (descriptor) {
    const ssize_t got = ::read(descriptor.get(), chunk.data(), chunk.size());
    if (got > 0) {
      text.append(chunk.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    descriptor.reset();
  }
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment) {
  Pipe events;
  Pipe error;
  start(arguments, environment, events.writer.get(), error.writer.get());
  events_ = std::move(events.reader);
  error_ = std::move(error.reader);
}

void ChildProcess::start(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment, int events_end,
                         int error_end) {
  std::vector<std::string> words = {"harmonics"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment;
  variables.push_back(format("{}={}", kEventsVariable, kChildEvents));
  variables.push_back(format("{}={}", kParentVariable, ::getpid()));
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, error_end, STDERR_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, events_end, kChildEvents);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // A signal that comes while the child loads waits until the child can answer it.
  sigset_t interrupts;
  ::sigemptyset(&interrupts);
  ::sigaddset(&interrupts, SIGINT);
  ::sigaddset(&interrupts, SIGTERM);
  ::posix_spawnattr_setsigmask(&attributes, &interrupts);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const int failure = ::posix_spawn(&pid_, "/proc/self/exe", &actions, &attributes,
                                    pointers_to(words).data(), pointers_to(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    pid_ = -1;
    fail_errno(failure, "cannot start a process for a part");
  }
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !ended()) {
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
}

std::vector<std::string> ChildProcess::read_events() {
  read_available(events_, event_text_);
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end = event_text_.find('\n'); end != std::string::npos;
       end = event_text_.find('\n', start)) {
    lines.push_back(event_text_.substr(start, end - start));
    start = end + 1;
  }
  event_text_.erase(0, start);
  if (event_text_.size() > kMaxEventLine) {
    fail(ErrorCode::kResourceExhausted, "a part told of an event in more than {} bytes",
         kMaxEventLine);
  }
  return lines;
}

void ChildProcess::read_error() {
  read_available(error_, error_text_);
  if (error_text_.size() > kMaxChildError) {
    error_text_.erase(0, error_text_.size() - kMaxChildError);
  }
}

void ChildProcess::signal(int number) {
  if (!ended()) ::kill(pid_, number);
}

std::optional<int> ChildProcess::ended() {
  if (status_ || pid_ <= 0) return status_;
  int status = 0;
  pid_t done = 0;
  while ((done = ::waitpid(pid_, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (done == pid_) status_ = status;
  return status_;
}

void die_with_parent() {
  const auto text = environment_value(kParentVariable);
  if (!text) return;
  const auto parent = number_from<pid_t>(*text);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // It may have died before; one that is not named right counts as dead.
  if (parent != ::getppid()) ::_exit(1);
}

}  // namespace harmonics::inline in_torch_program
