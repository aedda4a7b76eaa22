// Queues of one GPU, for parts that share it.
//
// A GPU computes what a thread launches in the order of the thread's queue, and works on several
// queues side by side. Half a batch fills a GPU less than a whole one: parts with a queue each fill
// it together. What comes from another queue is waited for by the GPU, not by a thread.
#pragma once

#include <memory>

#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

/// One thread at a time, but for Use: that belongs to the thread that launches.
class DeviceQueue {
 public:
  /// Null on a device that computes while its caller waits, such as the CPU.
  [[nodiscard]] static std::unique_ptr<DeviceQueue> make(Device device);
  virtual ~DeviceQueue() = default;

  /// What is launched here from now on waits for all that the calling thread has launched on the
  /// device.
  virtual void follow_caller() = 0;
  /// The other way round.
  virtual void lead_caller() = 0;

  /// While it lives, the calling thread launches here.
  class Use {
   public:
    /// Nothing where `queue` is null.
    explicit Use(const DeviceQueue* queue);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::shared_ptr<void> held_;
  };

 private:
  [[nodiscard]] virtual std::shared_ptr<void> hold() const = 0;
};

/// Brings tensors from one thread's queue to another's, in their order. One thread gives, one
/// takes.
class DeviceHandover {
 public:
  DeviceHandover();
  /// Waits until nothing that was given is read any more.
  ~DeviceHandover();
  DeviceHandover(const DeviceHandover&) = delete;
  DeviceHandover& operator=(const DeviceHandover&) = delete;

  /// What makes it has been launched by this thread. It must not change.
  void give(const Tensor& tensor);
  /// The next one as it came: in main memory itself, on a GPU a copy that is made in the queue of
  /// this thread once the giver's has come so far.
  [[nodiscard]] Tensor take(const Tensor& tensor);

 private:
  struct Marks;
  const std::unique_ptr<Marks> marks_;
};

}  // namespace harmonics::inline in_runtime
