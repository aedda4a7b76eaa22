#include <harmonics/transport/bus.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>

#include <harmonics/base/error.h>

#include "frame/message_check.h"

namespace harmonics::inline in_transport {
namespace {

// One direction of the bus. A message counts until the receiver takes it.
struct Lane {
  std::deque<Message> messages;
  std::uint64_t bytes = 0;
  std::uint64_t sent = 0;
  bool closed = false;     // its sender has closed
  bool abandoned = false;  // its sender went away without closing

  [[nodiscard]] bool has_room(const Window& window, std::uint64_t more) const {
    return messages.empty() || (messages.size() < window.messages && bytes + more <= window.bytes);
  }
};

struct Bus {
  explicit Bus(const Window& given) : window(given) {}

  const Window window;
  std::mutex mutex;
  std::condition_variable changed;
  std::array<Lane, 2> lanes;
};

class BusTransport final : public Transport {
 public:
  BusTransport(std::string name, std::shared_ptr<Bus> bus, std::size_t side)
      : bus_(std::move(bus)), out_(bus_->lanes[side]), in_(bus_->lanes[1 - side]) {
    binding_.name = std::move(name);
    binding_.host = "bus";
  }

  ~BusTransport() override {
    const std::lock_guard lock(bus_->mutex);
    out_.abandoned = !out_.closed;
    bus_->changed.notify_all();
  }

  void send(const Message& message, Deadline deadline) override {
    check_attachment(binding_.name, message);
    const std::uint64_t bytes = message_bytes(message);
    std::unique_lock lock(bus_->mutex);
    const auto ready = [&] {
      return out_.closed || in_.closed || in_.abandoned || out_.has_room(bus_->window, bytes);
    };
    if (!bus_->changed.wait_until(lock, deadline, ready)) {
      fail(ErrorCode::kDeadlineExceeded,
           "boundary '{}': the other end of the bus took nothing before the deadline; message {} "
           "waits behind {} others ({} bytes)",
           binding_.name, out_.sent + 1, out_.messages.size(), out_.bytes);
    }
    if (out_.closed) {
      fail(ErrorCode::kFailedPrecondition, "boundary '{}': sent on after close", binding_.name);
    }
    check_peer();
    if (in_.closed) {
      fail(ErrorCode::kUnavailable, "boundary '{}': the other end of the bus has closed",
           binding_.name);
    }
    out_.messages.push_back(message);
    out_.bytes += bytes;
    ++out_.sent;
    ++stats_.messages_sent;
    stats_.bytes_sent += bytes;
    stats_.peak_retained_bytes = std::max(stats_.peak_retained_bytes, out_.bytes);
    stats_.peak_retained_messages =
        std::max<std::uint64_t>(stats_.peak_retained_messages, out_.messages.size());
    bus_->changed.notify_all();
  }

  std::optional<Message> receive(Deadline deadline) override {
    std::unique_lock lock(bus_->mutex);
    const auto ready = [&] {
      return out_.closed || in_.closed || in_.abandoned || !in_.messages.empty();
    };
    if (!bus_->changed.wait_until(lock, deadline, ready)) {
      fail(ErrorCode::kDeadlineExceeded,
           "boundary '{}': message {} did not come over the bus before the deadline", binding_.name,
           stats_.messages_received + 1);
    }
    if (out_.closed) {
      fail(ErrorCode::kFailedPrecondition, "boundary '{}': received on after close", binding_.name);
    }
    if (in_.messages.empty()) {
      check_peer();
      return std::nullopt;
    }
    std::optional<Message> message(std::move(in_.messages.front()));
    in_.messages.pop_front();
    const std::uint64_t bytes = message_bytes(*message);
    in_.bytes -= bytes;
    ++stats_.messages_received;
    stats_.bytes_received += bytes;
    bus_->changed.notify_all();
    return message;
  }

  void close(Deadline /*deadline*/) override {
    const std::lock_guard lock(bus_->mutex);
    out_.closed = true;
    in_.messages.clear();
    in_.bytes = 0;
    bus_->changed.notify_all();
  }

  TransportStats stats() const override {
    const std::lock_guard lock(bus_->mutex);
    return stats_;
  }

  const RemoteBinding& binding() const override { return binding_; }

 private:
  void check_peer() const {
    if (in_.abandoned) {
      fail(ErrorCode::kAborted, "boundary '{}': the other end of the bus went away without closing",
           binding_.name);
    }
  }

  RemoteBinding binding_;
  std::shared_ptr<Bus> bus_;
  Lane& out_;
  Lane& in_;
  TransportStats stats_;
};

}  // namespace

std::pair<TransportPtr, TransportPtr> make_bus(const std::string& name, Window window) {
  check_window(name, window);
  auto bus = std::make_shared<Bus>(window);
  return {std::make_unique<BusTransport>(name, bus, 0),
          std::make_unique<BusTransport>(name, bus, 1)};
}

}  // namespace harmonics::inline in_transport
