#include "part_children.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include <harmonics/base/descriptor.h>
#include <harmonics/base/error.h>
#include <harmonics/cluster/task_environment.h>

#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

// When a part says that it lost another, how long that one may take to say why.
constexpr std::chrono::seconds kForTheCause(10);
// How a part ends that was asked to and could not save.
constexpr int kExitTerminated = 128 + SIGTERM;

// Ports below those that the system gives to outgoing connections.
constexpr int kFirstPort = 20000;
constexpr int kLastPort = 32000;
constexpr int kPortAttempts = 1000;

bool is_free(std::uint16_t port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) fail_errno(errno, "cannot make a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::uint16_t free_port(std::set<std::uint16_t>& taken) {
  std::random_device device;
  std::uniform_int_distribution<int> ports(kFirstPort, kLastPort);
  for (int i = 0; i < kPortAttempts; ++i) {
    const auto port = static_cast<std::uint16_t>(ports(device));
    if (is_free(port) && taken.insert(port).second) return port;
  }
  fail(ErrorCode::kUnavailable, "there is no free port from {} to {}", kFirstPort, kLastPort);
}

// Whether a part that is not done ended because it was asked to, or because another one was.
bool followed_signal(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGTERM;
  return WEXITSTATUS(status) == kExitTerminated || WEXITSTATUS(status) == kExitLostOthers;
}

}  // namespace

RemoteBinding FreePlaces::next(const std::string& name) {
  RemoteBinding binding;
  binding.name = name;
  binding.host = "127.0.0.1";
  binding.port = free_port(taken_);
  binding.transport = transport_;
  binding.compress = compress_;
  return binding;
}

void PartChildren::start(const std::vector<std::string>& arguments, const std::string& token,
                         const std::vector<std::string>& environment) {
  std::vector<std::string> variables = environment;
  variables.push_back(format("{}={}", kTokenVariable, token));
  children_.push_back(std::make_unique<ChildProcess>(arguments, variables));
  ends_.emplace_back();
}

void PartChildren::start_again(std::size_t child, const std::vector<std::string>& arguments,
                               const std::string& token,
                               const std::vector<std::string>& environment) {
  start(arguments, token, environment);
  if (child + 1 == children_.size()) return;
  std::swap(children_[child], children_.back());
  children_.pop_back();
  ends_.pop_back();
  ends_[child].reset();
}

void PartChildren::clear() {
  children_.clear();
  ends_.clear();
  cause_due_.reset();
}

void PartChildren::signal(int number) {
  for (const auto& child : children_) child->signal(number);
  cause_due_.reset();
}

void PartChildren::wait_for_words(int milliseconds) const {
  std::vector<pollfd> watched;
  for (const auto& child : children_) {
    for (const int descriptor : {child->events_descriptor(), child->error_descriptor()}) {
      if (descriptor >= 0) watched.push_back({descriptor, POLLIN, 0});
    }
  }
  ::poll(watched.data(), watched.size(), milliseconds);
}

void PartChildren::listen(
    const std::function<void(std::size_t child, const std::string& line)>& on_line) {
  for (std::size_t child = 0; child < children_.size(); ++child) {
    ends_[child] = children_[child]->ended();
  }
  for (std::size_t child = 0; child < children_.size(); ++child) {
    children_[child]->read_error();
    for (const std::string& line : children_[child]->read_events()) on_line(child, line);
  }
}

bool PartChildren::all_have_ended() const {
  return std::ranges::all_of(ends_, [](const auto& end) { return end.has_value(); });
}

std::optional<Failure> PartChildren::find_failure(const std::function<bool(std::size_t)>& is_done,
                                                  bool asked_to_end) {
  std::optional<std::size_t> lost_others;
  for (std::size_t child = 0; child < children_.size(); ++child) {
    const std::optional<int> status = ends_[child];
    if (!status || is_done(child)) continue;
    if (asked_to_end && followed_signal(*status)) continue;
    if (WIFEXITED(*status) && WEXITSTATUS(*status) == kExitLostOthers) {
      lost_others = child;
      continue;
    }
    return describe(child, *status);
  }
  if (!lost_others) return std::nullopt;
  if (!cause_due_) cause_due_ = deadline_in(kForTheCause);
  if (!all_have_ended() && std::chrono::steady_clock::now() < *cause_due_) return std::nullopt;
  Failure failure = describe(*lost_others, *ends_[*lost_others]);
  failure.killed = true;
  return failure;
}

Failure PartChildren::describe(std::size_t child, int status) {
  children_[child]->read_error();
  const std::string who = who_(child);
  if (WIFSIGNALED(status)) {
    return {format("{} was killed by signal {} ({})", who, WTERMSIG(status),
                   ::strsignal(WTERMSIG(status))),
            true};
  }
  std::string text = children_[child]->error_text();
  while (text.ends_with('\n')) text.pop_back();
  if (const std::size_t start = text.rfind("harmonics: "); start != std::string::npos) {
    text = text.substr(start + std::string_view("harmonics: ").size());
  }
  return {format("{}: {}", who,
                 text.empty() ? format("ended with exit code {}", WEXITSTATUS(status)) : text),
          false};
}

}  // namespace harmonics::inline in_torch_program
