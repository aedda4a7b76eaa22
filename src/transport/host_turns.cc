#include "host_turns.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {
namespace {

bool goes_to_all(MessageKind kind) {
  return kind == MessageKind::kEpochEnd || kind == MessageKind::kControl;
}

bool alike(const Message& a, const Message& b) {
  return a.kind == b.kind && a.step == b.step && a.micro_batch == b.micro_batch &&
         a.attachment == b.attachment && a.tensor.spec() == b.tensor.spec() &&
         std::ranges::equal(a.tensor.bytes(), b.tensor.bytes());
}

// Locks: the turn of each direction has one, so that messages of several threads keep whole turns.
class HostTurnsTransport final : public Transport {
 public:
  HostTurnsTransport(RemoteBinding binding, std::vector<TransportPtr> hosts)
      : binding_(std::move(binding)), hosts_(std::move(hosts)), told_(hosts_.size()) {}

  void send(const Message& message, Deadline deadline) override {
    const std::lock_guard lock(sending_);
    if (!goes_to_all(message.kind)) {
      hosts_[send_turn_]->send(message, deadline);
      send_turn_ = next(send_turn_);
      return;
    }
    // After a deadline in the middle, the call is made again: those who have it are left out.
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (told_[i]) continue;
      hosts_[i]->send(message, deadline);
      told_[i] = true;
    }
    told_.assign(hosts_.size(), false);
  }

  std::optional<Message> receive(Deadline deadline) override {
    const std::lock_guard lock(receiving_);
    while (heard_.size() < hosts_.size()) {
      const std::size_t from = (receive_turn_ + heard_.size()) % hosts_.size();
      std::optional<Message> message = hosts_[from]->receive(deadline);
      if (heard_.empty()) {
        if (!message) return std::nullopt;
        if (!goes_to_all(message->kind)) {
          receive_turn_ = next(receive_turn_);
          return message;
        }
      } else if (!message || !alike(*message, heard_.front())) {
        fail(ErrorCode::kFailedPrecondition,
             "boundary '{}': {} sent {} where another replica sent '{}' of step {}; replicas must "
             "agree on epoch ends and control messages",
             binding_.name, hosts_[from]->binding().host,
             message ? message_kind_name(message->kind) : "its end",
             message_kind_name(heard_.front().kind), heard_.front().step);
      }
      heard_.push_back(std::move(*message));
    }
    Message out = std::move(heard_.front());
    heard_.clear();
    return out;
  }

  void close(Deadline deadline) override {
    // All are closed, also when one of them cannot be.
    std::optional<Error> first;
    for (const TransportPtr& host : hosts_) {
      try {
        host->close(deadline);
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
    if (first) throw *first;
  }

  TransportStats stats() const override {
    TransportStats sum;
    for (const TransportPtr& host : hosts_) sum += host->stats();
    return sum;
  }

  const RemoteBinding& binding() const override { return binding_; }

 private:
  [[nodiscard]] std::size_t next(std::size_t turn) const { return (turn + 1) % hosts_.size(); }

  const RemoteBinding binding_;
  const std::vector<TransportPtr> hosts_;

  std::mutex sending_;
  std::size_t send_turn_ = 0;
  std::vector<bool> told_;  // of a message to all that is not with all of them yet

  std::mutex receiving_;
  std::size_t receive_turn_ = 0;
  std::vector<Message> heard_;  // of a message from all, in the order of turns
};

}  // namespace

bool lists_hosts(const RemoteBinding& binding) {
  return binding.host.find(',') != std::string::npos;
}

TransportPtr make_host_turns(
    const RemoteBinding& binding, const TransportOptions& options,
    const std::function<TransportPtr(const RemoteBinding&, const TransportOptions&)>& make) {
  std::vector<TransportPtr> hosts;
  std::string_view rest = binding.host;
  while (true) {
    const std::size_t comma = rest.find(',');
    RemoteBinding one = binding;
    one.host = rest.substr(0, comma);
    one.listen = false;
    if (one.host.empty() || hosts.size() == kMaxTurnHosts) {
      fail(ErrorCode::kInvalidArgument,
           "boundary '{}': '{}' is no list of 2 to {} hosts with commas between", binding.name,
           binding.host, kMaxTurnHosts);
    }
    hosts.push_back(make(one, options));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return std::make_unique<HostTurnsTransport>(binding, std::move(hosts));
}

}  // namespace harmonics::inline in_transport
