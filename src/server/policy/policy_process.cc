#include <harmonics/server/policy_process.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/log.h>
#include <harmonics/base/subprocess.h>

#include "policy_patience.h"
#include "policy_talk.h"

namespace harmonics::inline in_server {
namespace {

/// A decision of a library takes no longer than this, or the built-in policy makes it.
constexpr std::chrono::milliseconds kPolicyTimeLimit(1000);

Nanoseconds steady_now() { return SteadyClock().now(); }

std::string ban_text(Nanoseconds ban) {
  if (ban == Nanoseconds{}) return {};
  return format("; it is left out for {} s", std::chrono::ceil<std::chrono::seconds>(ban).count());
}

}  // namespace

PolicyProcess::PolicyProcess(std::filesystem::path host, std::filesystem::path library,
                             std::chrono::milliseconds time_limit)
    : host_(std::move(host)),
      library_(std::filesystem::absolute(library)),
      time_limit_(time_limit),
      teller_(std::make_unique<PolicyTeller>()),
      patience_(std::make_unique<PolicyPatience>()) {
  start();
}

PolicyProcess::~PolicyProcess() { stop(); }

void PolicyProcess::start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fail_errno(errno, "no socket for the policy library");
  }
  socket_.reset(ends[0]);
  Descriptor theirs(ends[1]);
  const ProgramStart::Started started =
      ProgramStart(host_, {host_.string(), "policy-host", library_.string()})
          .place(theirs.get(), STDIN_FILENO)
          .try_start();
  theirs.reset();  // else nobody would notice that the child has closed it
  teller_->begin_anew();
  child_ = started.pid;
  if (started.failure != 0) {
    fail_errno(started.failure, format("cannot start '{}' for the policy library", host_.string()));
  }
  // The first line says whether the library could be loaded.
  const Json greeting = Json::parse(exchange({}), "policy library");
  if (const Json* error = greeting.find("error")) {
    const std::string why = error->as_string();
    stop();
    fail(ErrorCode::kInvalidArgument, "policy library '{}': {}", library_.string(), why);
  }
  rule_ = read_rule(greeting);
}

void PolicyProcess::stop() {
  socket_.reset();
  kill_program(std::exchange(child_, -1));
}

/// Sends a line (none if it is empty) and gives the next line that comes back.
std::string PolicyProcess::exchange(const std::string& question) {
  const auto end = std::chrono::steady_clock::now() + time_limit_;
  const auto broken = [this](const std::string& what, ErrorCode code = ErrorCode::kInternal) {
    stop();
    fail(code, "the policy library '{}' {}", library_.string(), what);
  };
  std::string_view rest = question;
  const auto send_some = [&] {
    const ssize_t sent =
        ::send(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno == EPIPE) broken("has crashed");
  };
  if (!rest.empty()) send_some();  // As a rule all of it.
  std::string answer;
  while (!answer.ends_with('\n')) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd wait{socket_.get(), static_cast<short>(rest.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready == 0) {
      broken(format("did not answer within {} ms", time_limit_.count()),
             ErrorCode::kDeadlineExceeded);
    }
    if (ready < 0) continue;
    if (!rest.empty() && (wait.revents & POLLOUT) != 0) {
      send_some();
      continue;
    }
    std::array<char, 4096> chunk;
    const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) broken("has crashed");
    if (got > 0) answer.append(chunk.data(), static_cast<std::size_t>(got));
    if (answer.size() > kMaxPolicyAnswerBytes) broken("talks too much");
  }
  return answer;
}

/// What the library says to a line, which is made once it listens.
template <typename Line>
Json PolicyProcess::question_and_answer(Line line) {
  const Nanoseconds begin = steady_now();
  Json answer;
  try {
    if (child_ < 0) start();
    answer = Json::parse(exchange(line() + "\n"), "answer of the policy library");
  } catch (const Error& error) {
    stop();
    const Nanoseconds now = steady_now();
    const bool late = error.code() == ErrorCode::kDeadlineExceeded;
    const Nanoseconds ban = late ? patience_->late(now) : patience_->crashed(now);
    fail(ErrorCode::kInternal, "{}{}", error.what(), ban_text(ban));
  }
  const Nanoseconds now = steady_now();
  if (const Nanoseconds ban = patience_->answered(now - begin, now); ban != Nanoseconds{}) {
    log_warn("server", "the policy library '{}' is slow in pass after pass{}, 'balanced' decides",
             library_.string(), ban_text(ban));
  }
  if (const Json* error = answer.find("error")) {
    fail(ErrorCode::kInternal, "the policy library '{}' threw: {}", library_.string(),
         error->as_string());
  }
  return answer;
}

std::optional<Assignment> PolicyProcess::ask(const WorkerPool& workers, const TaskSpec& task) {
  const Json answer = question_and_answer([&] { return teller_->question(workers, task); });
  if (answer.find("none") != nullptr) return std::nullopt;
  return Assignment{WorkerId{static_cast<std::uint32_t>(answer.at("worker").as_integer())},
                    DeviceSet{static_cast<std::uint64_t>(answer.at("devices").as_integer())}};
}

std::optional<Assignment> PolicyProcess::try_assign(const WorkerPool& workers,
                                                    const TaskSpec& task) {
  switch (patience_->may_ask(steady_now())) {
    case PolicyPatience::Verdict::kAsk: return ask(workers, task);
    case PolicyPatience::Verdict::kAskAgain:
      log_warn("server", "the policy library '{}' is asked again", library_.string());
      return ask(workers, task);
    case PolicyPatience::Verdict::kSpent:
      log_warn("server",
               "the policy library '{}' has taken its {} ms of this pass over the queue: "
               "'balanced' decides the rest",
               library_.string(),
               std::chrono::ceil<std::chrono::milliseconds>(PolicyPatience::kPassBudget).count());
      break;
    case PolicyPatience::Verdict::kLeaveOut: break;
  }
  return balanced_.try_assign(workers, task);
}

Assignment PolicyProcess::assign_task(const WorkerPool& workers, const TaskSpec& task) {
  const std::optional<Assignment> choice = try_assign(workers, task);
  if (!choice) fail(ErrorCode::kResourceExhausted, "the policy library finds no worker");
  return *choice;
}

std::optional<std::uint32_t> PolicyProcess::ask_level(const Standing& standing) {
  const auto verdict = patience_->may_ask(steady_now());
  if (verdict == PolicyPatience::Verdict::kSpent || verdict == PolicyPatience::Verdict::kLeaveOut) {
    return std::nullopt;
  }
  try {
    const Json answer = question_and_answer([&] { return teller_->question(standing); });
    return static_cast<std::uint32_t>(answer.at("level").as_integer());
  } catch (const Error& error) {
    log_warn("server", "{}; the level of task '{}' is that of its time limit", error.what(),
             standing.spec.name);
    return std::nullopt;
  }
}

std::uint32_t PolicyProcess::level(const Standing& standing) {
  const std::optional<std::uint32_t> own =
      rule_ == OrderRule::kShares ? std::nullopt : ask_level(standing);
  return own ? *own : WorkloadPolicy::level(standing);
}

std::unique_ptr<WorkloadPolicy> open_policy(const std::string& name,
                                            const std::filesystem::path& host) {
  const bool is_path = name.find('/') != name.npos || name.ends_with(".so");
  if (!is_path) return make_policy(name);
  return std::make_unique<PolicyProcess>(host, name, kPolicyTimeLimit);
}

void PolicyProcess::begin_pass() { patience_->begin_pass(); }

}  // namespace harmonics::inline in_server
