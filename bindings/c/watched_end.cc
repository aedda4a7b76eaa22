#include "watched_end.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics::border {
namespace {

/// How long a wait goes on before it looks at the watch again.
constexpr auto kSlice = std::chrono::milliseconds(100);

}  // namespace

std::string EndWatch::traffic() const {
  const std::lock_guard lock(mutex_);
  TransportStats sum = closed_;
  for (const auto& [end, kind] : open_) sum += end->stats();
  Json kinds = Json::object();
  for (const auto& [kind, count] : kinds_) kinds.set(kind, count);
  Json json;
  json.set("ends", std::move(kinds));
  json.set("messages_sent", sum.messages_sent).set("messages_received", sum.messages_received);
  json.set("bytes_sent", sum.bytes_sent).set("bytes_received", sum.bytes_received);
  json.set("socket_payload_sent", sum.socket_payload_sent);
  json.set("socket_payload_received", sum.socket_payload_received);
  json.set("reconnects", sum.reconnects).set("broken", broken_.load());
  return json.dump();
}

class WatchedEnd final : public Transport {
 public:
  WatchedEnd(TransportPtr end, const std::string& kind, std::shared_ptr<EndWatch> watch)
      : end_(std::move(end)), watch_(std::move(watch)) {
    const std::lock_guard lock(watch_->mutex_);
    ++watch_->kinds_[kind];
    watch_->open_.emplace(end_.get(), kind);
  }

  ~WatchedEnd() override {
    const std::lock_guard lock(watch_->mutex_);
    watch_->closed_ += end_->stats();
    watch_->open_.erase(end_.get());
  }

  void send(const Message& message, Deadline deadline) override {
    in_slices(deadline, [&](Deadline until) {
      end_->send(message, until);
      return true;
    });
  }

  std::optional<Message> receive(Deadline deadline) override {
    std::optional<Message> message =
        in_slices(deadline, [&](Deadline until) { return end_->receive(until); });
    if (!message) ++watch_->broken_;
    return message;
  }

  void close(Deadline deadline) override { end_->close(deadline); }
  [[nodiscard]] TransportStats stats() const override { return end_->stats(); }
  [[nodiscard]] const RemoteBinding& binding() const override { return end_->binding(); }

 private:
  /// `wait` is tried again as long as nothing but its own slice of the time has passed.
  template <typename Wait>
  auto in_slices(Deadline deadline, Wait&& wait) -> decltype(wait(deadline)) {
    while (true) {
      if (watch_->stopped()) {
        ++watch_->broken_;
        fail(ErrorCode::kCancelled, "boundary '{}': the run was told to stop", binding().name);
      }
      const Deadline until = std::min(deadline, deadline_in(kSlice));
      try {
        return wait(until);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kDeadlineExceeded && until != deadline) continue;
        ++watch_->broken_;
        throw;
      }
    }
  }

  TransportPtr end_;
  std::shared_ptr<EndWatch> watch_;
};

TransportPtr watched(TransportPtr end, const std::string& kind, std::shared_ptr<EndWatch> watch) {
  return std::make_unique<WatchedEnd>(std::move(end), kind, std::move(watch));
}

}  // namespace harmonics::border
