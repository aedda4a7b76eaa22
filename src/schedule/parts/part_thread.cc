#include "part_thread.h"

#include <utility>

#include <harmonics/runtime/devices.h>

namespace harmonics::inline in_schedule {

PartThread::PartThread(int compute_threads)
    : thread_([this, compute_threads] {
        use_compute_threads(compute_threads);
        work();
      }) {}

PartThread::PartThread() : thread_([this] { work(); }) {}

void PartThread::work() {
  while (auto task = mailbox_.pop(decltype(mailbox_)::kForever)) (*task)();
}

PartThread::~PartThread() {
  mailbox_.close();
  thread_.join();
}

std::future<void> PartThread::post(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  mailbox_.push(std::move(task));
  return done;
}

}  // namespace harmonics::inline in_schedule
