#include "call_wait.h"

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_rpc {

using std::chrono::system_clock;

void check_interrupted(const std::function<bool()>& interrupted) {
  if (interrupted && interrupted()) fail(ErrorCode::kCancelled, "interrupted while it waited");
}

CallWait::~CallWait() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

CallWait::Ended CallWait::next(const std::function<void()>& leave) {
  Ended ended;
  while (interrupted_ && !left_) {
    const auto until = system_clock::now() + kInterruptPeriod;
    if (queue_.AsyncNext(&ended.tag, &ended.ok, until) == grpc::CompletionQueue::GOT_EVENT) {
      return ended;
    }
    left_ = interrupted_();
    if (left_) leave();
  }
  queue_.Next(&ended.tag, &ended.ok);
  return ended;
}

bool connects(grpc::Channel& channel, system_clock::time_point deadline,
              const std::function<bool()>& interrupted) {
  for (auto state = channel.GetState(true); state != GRPC_CHANNEL_READY;
       state = channel.GetState(true)) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return false;
    const auto slice =
        interrupted ? std::min(deadline, system_clock::now() + kInterruptPeriod) : deadline;
    if (channel.WaitForStateChange(state, slice)) continue;
    check_interrupted(interrupted);
    if (system_clock::now() >= deadline) return false;
  }
  return true;
}

}  // namespace harmonics::inline in_rpc
