#include "interrupt.h"

#include <signal.h>

namespace harmonics {
namespace {

constexpr int kSignalExitBase = 128;

std::atomic<bool> interrupt_requested = false;
std::atomic<int> interrupt_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  interrupt_signal = number;
  interrupt_requested = true;
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  interrupt_requested = false;
  interrupt_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // reading and writing files must not notice
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

InterruptWatch::~InterruptWatch() {
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& InterruptWatch::requested() const { return interrupt_requested; }

int InterruptWatch::exit_code() const {
  const int number = interrupt_signal;
  return number == 0 ? 0 : kSignalExitBase + number;
}

}  // namespace harmonics
