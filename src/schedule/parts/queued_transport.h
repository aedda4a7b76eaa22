// QueuedTransport: a bus between parts whose GPUs work on a queue for each (private to schedule).
#pragma once

#include <memory>
#include <utility>

#include <harmonics/runtime/device_queue.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

/// Tensors come out ready for the queue of the thread that receives. Threads and failures are those
/// of the transport within, which must lose none between its ends.
class QueuedTransport final : public Transport {
 public:
  using Way = std::shared_ptr<DeviceHandover>;

  QueuedTransport(TransportPtr end, Way out, Way in)
      : end_(std::move(end)), out_(std::move(out)), in_(std::move(in)) {}

  void send(const Message& message, Deadline deadline) override {
    out_->give(message.tensor);
    end_->send(message, deadline);
  }
  [[nodiscard]] std::optional<Message> receive(Deadline deadline) override {
    std::optional<Message> message = end_->receive(deadline);
    if (message) message->tensor = in_->take(message->tensor);
    return message;
  }
  void close(Deadline deadline) override { end_->close(deadline); }
  [[nodiscard]] TransportStats stats() const override { return end_->stats(); }
  [[nodiscard]] const RemoteBinding& binding() const override { return end_->binding(); }

 private:
  const TransportPtr end_;
  const Way out_;
  const Way in_;
};

}  // namespace harmonics::inline in_schedule
