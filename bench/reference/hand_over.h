// The usual way to feed device threads: a dispatching thread hands each sub-batch to a queue under
// one mutex and waits on a condition variable for room; workers wait on another one for work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace reference {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// As many workers as asked for, each with a queue that holds `capacity` rows.
class HandOver {
 public:
  HandOver(std::size_t workers, std::size_t capacity, std::function<int(Range)> work)
      : capacity_(capacity), work_(std::move(work)), queues_(workers), loads_(workers, 0) {
    for (std::size_t w = 0; w < workers; ++w) {
      threads_.emplace_back([this, w] { serve(w); });
    }
  }
  ~HandOver() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;

  /// Results of all sub-batches in order.
  std::vector<int> run(std::size_t rows, std::size_t batch) {
    std::vector<int> results((rows + batch - 1) / batch);
    std::unique_lock lock(mutex_);
    results_ = &results;
    pending_ = results.size();
    for (std::size_t begin = 0, slot = 0; begin < rows; begin += batch, ++slot) {
      const Range range{begin, std::min(rows, begin + batch)};
      std::size_t chosen = queues_.size();
      has_room_.wait(lock, [&] {
        for (std::size_t w = 0; w < queues_.size() && chosen == queues_.size(); ++w) {
          if (loads_[w] + batch <= capacity_) chosen = w;
        }
        return chosen < queues_.size();
      });
      loads_[chosen] += range.end - range.begin;
      queues_[chosen].push_back({range, slot});
      has_work_.notify_all();
    }
    has_room_.wait(lock, [&] { return pending_ == 0; });
    return results;
  }

 private:
  struct Item {
    Range range;
    std::size_t slot;
  };
  void serve(std::size_t w) {
    std::unique_lock lock(mutex_);
    for (;;) {
      has_work_.wait(lock, [&] { return ended_ || !queues_[w].empty(); });
      if (queues_[w].empty()) return;
      const Item item = queues_[w].front();
      queues_[w].pop_front();
      lock.unlock();
      const int result = work_(item.range);
      lock.lock();
      (*results_)[item.slot] = result;
      loads_[w] -= item.range.end - item.range.begin;
      --pending_;
      has_room_.notify_all();
    }
  }

  const std::size_t capacity_;
  const std::function<int(Range)> work_;
  std::mutex mutex_;
  std::condition_variable has_work_, has_room_;
  std::vector<std::deque<Item>> queues_;
  std::vector<std::size_t> loads_;
  std::vector<int>* results_ = nullptr;
  std::size_t pending_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace reference
