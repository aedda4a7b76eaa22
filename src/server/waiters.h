// Clients that wait for tasks to end (private to server).
#pragma once

#include <functional>
#include <list>
#include <map>
#include <unordered_map>

#include <harmonics/rpc/views.h>

namespace harmonics::inline in_server {

inline constexpr std::size_t kMaxWaiters = 20'000;

/// Owned by the loop. Each waiter is answered exactly once: by an end, by its time, or by
/// `release`.
class Waiters {
 public:
  using Reply = std::function<void(ClientReply)>;

  /// Answers at once when the task has ended, is unknown, or too many wait.
  void add(const ClusterState& state, const WaitQuery& query, Time now, Reply reply);
  /// A task has ended; those who wait for it, or for the last of its array, are answered.
  void on_end(const ClusterState& state, TaskId task);
  /// Answers those whose time has come.
  void expire(const ClusterState& state, Time now);
  [[nodiscard]] Time deadline() const;
  /// Answers all, as things stand.
  void release(const ClusterState& state);

 private:
  struct Waiter {
    TaskId task;
    TaskId first;            ///< Of its submission.
    std::uint64_t left = 1;  ///< Ends that it still waits for.
    Reply reply;
    std::multimap<Time, std::list<Waiter>::iterator>::iterator due;
  };
  using Place = std::list<Waiter>::iterator;

  void answer(const ClusterState& state, Place waiter);

  std::list<Waiter> all_;
  std::multimap<Time, Place> by_time_;
  std::unordered_multimap<std::uint64_t, Place> by_submission_;
};

}  // namespace harmonics::inline in_server
