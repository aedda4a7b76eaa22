#include "signals.h"

#include <pthread.h>
#include <signal.h>

namespace harmonics::inline in_cluster_program {
namespace {

sigset_t watched() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR2}) ::sigaddset(&set, signal);
  return set;
}

}  // namespace

SignalWatch::SignalWatch(std::function<void(int signal)> on_signal) {
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([set, on_signal = std::move(on_signal)] {
    int signal = 0;
    ::sigwait(&set, &signal);
    if (signal != SIGUSR2) on_signal(signal);
  });
}

SignalWatch::~SignalWatch() {
  // Ends the wait if nothing else has.
  ::pthread_kill(thread_.native_handle(), SIGUSR2);
  thread_.join();
}

}  // namespace harmonics::inline in_cluster_program
