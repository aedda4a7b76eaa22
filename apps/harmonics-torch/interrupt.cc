#include "interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr int kSignalExitBase = 128;
// Before there is work to lose, how long a process may take to end by itself.
constexpr int kToEndMilliseconds = 3000;
// With work to lose: how long one wait goes on for a neighbour that can be heard (and so many of
// the longest steps, if that is more), and for one that cannot.
constexpr Nanoseconds kInTouch = std::chrono::seconds(30);
constexpr int kStepsInTouch = 3;
constexpr Nanoseconds kAlone = std::chrono::seconds(5);

std::atomic<bool> interrupt_requested = false;
std::atomic<int> interrupt_signal = 0;
std::atomic<int> interrupt_pipe = -1;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  const int before = errno;
  interrupt_signal = number;
  interrupt_requested = true;
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  const char word = 's';
  static_cast<void>(!::write(interrupt_pipe, &word, 1));
  errno = before;
}

std::string_view name_of(int number) { return number == SIGINT ? "SIGINT" : "SIGTERM"; }

// What comes through the pipe; 0 when nothing does in time (-1: however long it takes).
char next_word(int descriptor, int milliseconds) {
  pollfd watched{descriptor, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&watched, 1, milliseconds)) < 0 && errno == EINTR) {
  }
  char word = 0;
  return ready > 0 && ::read(descriptor, &word, 1) == 1 ? word : '\0';
}

}  // namespace

InterruptWatch::InterruptWatch(bool says) : says_(says) {
  if (::pipe2(pipe_, O_CLOEXEC) != 0) fail_errno(errno, "cannot make a pipe");
  interrupt_requested = false;
  interrupt_signal = 0;
  interrupt_pipe = pipe_[1];
  thread_ = std::thread([this] { watch(); });
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // reading and writing files must not notice
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  release_interrupts();
}

InterruptWatch::~InterruptWatch() {
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  const char word = 'q';
  static_cast<void>(!::write(pipe_[1], &word, 1));
  thread_.join();
  interrupt_pipe = -1;
  for (const int end : pipe_) ::close(end);
}

void InterruptWatch::watch() {
  if (next_word(pipe_[0], -1) != 's') return;
  stop_->ask(std::string(name_of(interrupt_signal)));
  say(format("{}: ending; a second signal ends at once", name_of(interrupt_signal)));
  while (next_word(pipe_[0], kToEndMilliseconds) != 'q') {
    if (last_step_ns_ != 0) continue;
    say("interrupted before the first step: nothing is lost");
    ::_exit(exit_code());
  }
}

const std::atomic<bool>& InterruptWatch::requested() const { return interrupt_requested; }

int InterruptWatch::exit_code() const {
  const int number = interrupt_signal;
  return number == 0 ? 0 : kSignalExitBase + number;
}

void InterruptWatch::step_done() {
  const std::int64_t now = SteadyClock().now().count();
  const std::int64_t before = last_step_ns_.exchange(now);
  const std::int64_t longest = longest_step_ns_;
  if (before != 0 && now - before <= longest) return;
  if (before != 0) longest_step_ns_ = now - before;
  const Nanoseconds steps(kStepsInTouch * longest_step_ns_.load());
  stop_->set_patience({std::max(kInTouch, steps), kAlone});
}

void InterruptWatch::check(const std::string& where) const {
  if (requested()) fail(ErrorCode::kCancelled, "{}", where);
}

void InterruptWatch::say(const std::string& text) const {
  if (!says_) return;
  try {
    write_text(TextStream::kError, text + "\n");
  } catch (const Error&) {
    // Nobody listens; the exit code has to do.
  }
}

int run_interruptible(const InterruptWatch& watch, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (!watch.requested() || error.code() != ErrorCode::kCancelled) throw;
    watch.say(format("interrupted: {}", error.what()));
    return watch.exit_code();
  }
}

void release_interrupts() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace harmonics::inline in_torch_program
