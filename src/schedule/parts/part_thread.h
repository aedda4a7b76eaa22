// PartThread: the thread that one part of a pipeline lives on (private to schedule).
#pragma once

#include <functional>
#include <future>
#include <thread>

#include <harmonics/base/channel.h>

namespace harmonics::inline in_schedule {

/// Does what it is given, one thing after another, until it is destroyed. Destroying it waits for
/// what is under way.
class PartThread {
 public:
  /// `compute_threads` as in use_compute_threads.
  explicit PartThread(int compute_threads);
  /// One that computes nothing with libtorch: how many threads that uses stays as it is.
  PartThread();
  ~PartThread();
  PartThread(const PartThread&) = delete;
  PartThread& operator=(const PartThread&) = delete;

  /// The future holds what `work` throws. Waits while kMaxWaitingWork things wait already.
  std::future<void> post(std::function<void()> work);

 private:
  static constexpr std::size_t kMaxWaitingWork = 1;
  void work();

  Channel<std::packaged_task<void()>> mailbox_{kMaxWaitingWork};
  std::thread thread_;
};

}  // namespace harmonics::inline in_schedule
