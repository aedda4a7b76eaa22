#include "child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/base/subprocess.h>

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
  std::array<int, 2> orders{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders.data()) != 0) {
    fail_errno(errno, "cannot make a pair of sockets");
  }
  orders_.reset(orders[0]);
  const Descriptor theirs(orders[1]);
  start(arguments, environment, {events.writer.get(), error.writer.get(), theirs.get()});
  events_ = std::move(events.reader);
  error_ = std::move(error.reader);
}

void ChildProcess::start(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment, const ChildEnds& ends) {
  std::vector<std::string> words = {"harmonics"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment;
  variables.push_back(format("{}={}", kEventsVariable, kChildEvents));
  variables.push_back(format("{}={}", kParentVariable, ::getpid()));
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);

  // A signal that comes while the child loads waits until the child can answer it.
  const ProgramStart::Started started = ProgramStart("/proc/self/exe", std::move(words))
                                            .mute(STDIN_FILENO)
                                            .mute(STDOUT_FILENO)
                                            .place(ends.error, STDERR_FILENO)
                                            .place(ends.events, kChildEvents)
                                            .place(ends.orders, kChildOrders)
                                            .environment(std::move(variables))
                                            .own_group()
                                            .hold_back({SIGINT, SIGTERM})
                                            .try_start();
  pid_ = started.pid;
  if (started.failure != 0) fail_errno(started.failure, "cannot start a process for a part");
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !ended()) kill_program(pid_);
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

void ChildProcess::tell(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t sent = ::send(orders_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(text.size())) return;
  // It does not read its orders, or is gone: half a line would mislead it.
  signal(SIGKILL);
}

std::optional<int> ChildProcess::ended() {
  if (status_ || pid_ <= 0) return status_;
  status_ = ended_program(pid_);
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
