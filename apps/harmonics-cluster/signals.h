// Ctrl-C and its like, waited for instead of handled.
#pragma once

#include <functional>
#include <thread>

namespace harmonics::inline in_cluster_program {

/// From construction on INT, TERM and HUP of this process are only seen here; make it before any
/// thread. `on_signal` is called once, by a thread of this.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  std::thread thread_;
};

}  // namespace harmonics::inline in_cluster_program
