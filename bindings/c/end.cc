#include <chrono>
#include <map>
#include <mutex>

#include <harmonics/base/json.h>
#include <harmonics/transport/bus.h>

#include "border.h"
#include "engine_settings.h"

using namespace harmonics;
using namespace harmonics::border;

namespace {

/// Second ends of buses whose first end was asked for. Bounded: an end that nobody comes for
/// counts.
class BusMeeting {
 public:
  static constexpr std::size_t kMaxWaiting = 4096;

  TransportPtr take(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (const auto found = waiting_.find(name); found != waiting_.end()) {
      TransportPtr second = std::move(found->second);
      waiting_.erase(found);
      return second;
    }
    if (waiting_.size() >= kMaxWaiting) {
      fail(ErrorCode::kResourceExhausted, "{} buses wait for their second end", kMaxWaiting);
    }
    auto [first, second] = make_bus(name);
    waiting_[name] = std::move(second);
    return std::move(first);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, TransportPtr> waiting_;
};

BusMeeting& meeting() {
  static BusMeeting the_one;
  return the_one;
}

Deadline within(int64_t timeout_ms) { return deadline_in(std::chrono::milliseconds(timeout_ms)); }

Transport& transport_of(const hm_end* end) { return *object_of(end, "end").transport; }

}  // namespace

extern "C" {

int hm_end_open(const char* url, const char* settings, hm_end** out) {
  return guarded([&] {
    const TransportOptions options =
        engine_settings(settings == nullptr ? std::string_view() : settings).remote.transport;
    const std::string_view place = text_of(url, "url");
    object_of(out, "out") = new hm_end{make_transport(parse_binding(place), options),
                                       std::string(place.substr(0, place.find(':')))};
  });
}

int hm_bus_open(const char* name, hm_end** out) {
  return guarded([&] {
    object_of(out, "out") = new hm_end{meeting().take(std::string(text_of(name, "name"))), "bus"};
  });
}

int hm_end_send(hm_end* end, const hm_tensor* tensor, uint64_t step, int64_t timeout_ms) {
  return guarded([&] {
    Message message;
    message.step = step;
    message.tensor = adopt(object_of(tensor, "tensor"));
    transport_of(end).send(message, within(timeout_ms));
  });
}

int hm_end_receive(hm_end* end, int64_t timeout_ms, uint64_t* step, hm_tensors** out) {
  return guarded([&] {
    object_of(out, "out") = nullptr;
    const std::optional<Message> message = transport_of(end).receive(within(timeout_ms));
    if (!message) return;
    object_of(step, "step") = message->step;
    NamedTensors named;
    named["tensor"] = message->tensor;
    *out = new hm_tensors(std::move(named));
  });
}

int hm_end_close(hm_end* end, int64_t timeout_ms) {
  return guarded([&] { transport_of(end).close(within(timeout_ms)); });
}

int hm_end_stats(const hm_end* end, char** json) {
  return guarded([&] {
    const TransportStats stats = transport_of(end).stats();
    Json text;
    text.set("messages_sent", stats.messages_sent);
    text.set("messages_received", stats.messages_received);
    text.set("bytes_sent", stats.bytes_sent).set("bytes_received", stats.bytes_received);
    text.set("socket_payload_sent", stats.socket_payload_sent);
    text.set("socket_payload_received", stats.socket_payload_received);
    text.set("reconnects", stats.reconnects);
    object_of(json, "json") = copy_text(text.dump());
  });
}

int hm_end_port(const hm_end* end, int32_t* port) {
  return guarded([&] { object_of(port, "port") = transport_of(end).binding().port; });
}

void hm_end_free(hm_end* end) { delete end; }

}  // extern "C"
