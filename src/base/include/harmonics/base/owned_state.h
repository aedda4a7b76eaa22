// What a movable object hides behind its header.
#pragma once

#include <memory>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_base {

/// Owns the hidden state of an object of the kind `kind` ("scheduler"). Once that object was moved
/// from, using it is an Error (kFailedPrecondition), never a crash. Not thread safe.
template <typename State>
class OwnedState {
 public:
  OwnedState(const char* kind, std::unique_ptr<State> state)
      : kind_(kind), state_(std::move(state)) {}

  [[nodiscard]] State* operator->() const { return &**this; }
  [[nodiscard]] State& operator*() const {
    if (state_ == nullptr) {
      fail(ErrorCode::kFailedPrecondition,
           "this {0} was moved from and holds nothing any more: use the {0} that it was moved to",
           kind_);
    }
    return *state_;
  }
  /// False once it was moved from.
  [[nodiscard]] explicit operator bool() const { return state_ != nullptr; }

 private:
  const char* kind_;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics::inline in_base
