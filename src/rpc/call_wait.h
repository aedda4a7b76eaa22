// Waiting for the operations of one call, so that whoever waits can leave (private to rpc).
#pragma once

#include <chrono>
#include <functional>

#include <grpcpp/grpcpp.h>

namespace harmonics::inline in_rpc {

/// How often a call that waits asks whether it should go on.
inline constexpr std::chrono::milliseconds kInterruptPeriod(50);

/// Throws an Error (kCancelled) once `interrupted` (may be empty) says so.
void check_interrupted(const std::function<bool()>& interrupted);

/// Owned by the thread that makes the call.
class CallWait {
 public:
  explicit CallWait(const std::function<bool()>& interrupted) : interrupted_(interrupted) {}
  /// Nothing may be under way: `next` has been called for all that was begun.
  ~CallWait();
  CallWait(const CallWait&) = delete;
  CallWait& operator=(const CallWait&) = delete;

  struct Ended {
    void* tag = nullptr;
    bool ok = false;
  };
  [[nodiscard]] grpc::CompletionQueue& queue() { return queue_; }
  /// The next operation that ends. One that is interrupted has `leave` called, which must cancel
  /// what is under way, and is waited for all the same; `interrupted` is true from then on.
  [[nodiscard]] Ended next(const std::function<void()>& leave);
  [[nodiscard]] bool left() const { return left_; }

 private:
  const std::function<bool()>& interrupted_;
  grpc::CompletionQueue queue_;
  bool left_ = false;
};

/// Until the channel is connected; false where it is refused, or not by `deadline`.
[[nodiscard]] bool connects(grpc::Channel& channel, std::chrono::system_clock::time_point deadline,
                            const std::function<bool()>& interrupted);

}  // namespace harmonics::inline in_rpc
