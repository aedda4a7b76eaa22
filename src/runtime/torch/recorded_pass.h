// Work of a GPU that is launched as a whole (private to runtime).
//
// A pass over a stage is hundreds of small launches, which take the CPU longer than the GPU needs
// for them. Recorded once, all of them are a single launch.
#pragma once

#include <functional>
#include <memory>

#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

class RecordedPass {
 public:
  virtual ~RecordedPass() = default;
  /// Launches what was recorded, behind all that was launched before, on the memory of then.
  virtual void launch() = 0;
  /// A point behind all that this thread has launched so far, and the wait until it is reached.
  virtual void mark() = 0;
  virtual void wait() = 0;
};

/// Records the passes of one stage. One thread at a time.
class PassRecorder {
 public:
  virtual ~PassRecorder() = default;
  /// Begins a set of passes, which share memory with each other and with no other set.
  virtual void begin_set() = 0;
  /// Calls `work` and records what it launches; nothing is computed yet. Tensors that it makes and
  /// that live on hold their memory; what it drops, a later pass of the set may take, so passes of
  /// a set are launched in the order in which they were recorded, if perhaps not all of them.
  /// Whatever cannot be recorded, such as waiting for the GPU, ends with an exception, and the
  /// device goes on as before.
  [[nodiscard]] virtual std::unique_ptr<RecordedPass> record(const std::function<void()>& work) = 0;
  /// Calls `work` where it will be recorded, and waits for it: libraries of the GPU take their
  /// memory and load their kernels at the first call, which cannot be recorded.
  virtual void rehearse(const std::function<void()>& work) = 0;
};

/// Null where libtorch has no CUDA, or this device is none.
[[nodiscard]] std::unique_ptr<PassRecorder> make_pass_recorder(Device device);

}  // namespace harmonics::inline in_runtime
