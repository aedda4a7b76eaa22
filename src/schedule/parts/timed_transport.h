// TimedTransport: a transport that counts how long its callers waited (private to schedule).
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

/// Nanoseconds that threads spent in the sends and receives of one part's boundaries.
using WaitCount = std::shared_ptr<std::atomic<std::int64_t>>;

/// Adds the time of every send and receive, also of one that fails, to a count that several ends
/// may share. Threads and failures are those of the transport within.
class TimedTransport final : public Transport {
 public:
  TimedTransport(TransportPtr end, WaitCount waited)
      : end_(std::move(end)), waited_(std::move(waited)) {}

  void send(const Message& message, Deadline deadline) override {
    const Lap lap(*waited_);
    end_->send(message, deadline);
  }
  [[nodiscard]] std::optional<Message> receive(Deadline deadline) override {
    const Lap lap(*waited_);
    return end_->receive(deadline);
  }
  void close(Deadline deadline) override { end_->close(deadline); }
  [[nodiscard]] TransportStats stats() const override { return end_->stats(); }
  [[nodiscard]] const RemoteBinding& binding() const override { return end_->binding(); }

 private:
  class Lap {
   public:
    explicit Lap(std::atomic<std::int64_t>& count) : count_(count), begin_(SteadyClock().now()) {}
    ~Lap() { count_ += (SteadyClock().now() - begin_).count(); }
    Lap(const Lap&) = delete;
    Lap& operator=(const Lap&) = delete;

   private:
    std::atomic<std::int64_t>& count_;
    const Nanoseconds begin_;
  };

  const TransportPtr end_;
  const WaitCount waited_;
};

}  // namespace harmonics::inline in_schedule
