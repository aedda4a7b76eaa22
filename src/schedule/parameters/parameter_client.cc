#include <harmonics/schedule/parameter_client.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "parameter_wire.h"

namespace harmonics::inline in_schedule {
namespace {

/// The streams to one server.
struct Shard {
  RemoteBinding place;
  ParameterStreams streams;
  bool greeted = false;
  std::optional<ParameterLayout> layout;
  std::int64_t version = 0;
};

/// A server's refusal ends the streams; its text is the Error.
void check_refusal(const Message& message) {
  if (message.kind != MessageKind::kControl || message.micro_batch != 1) return;
  const ByteSpan text = message.tensor.bytes();
  fail(ErrorCode::kPermissionDenied, "it refuses this worker: {}",
       std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));
}

}  // namespace

struct ParameterClient::State {
  State(std::vector<RemoteBinding> servers, const ParameterClientOptions& wanted)
      : options(wanted) {
    if (servers.empty() || servers.size() > kMaxParameterShards) {
      fail(ErrorCode::kInvalidArgument, "{} parameter servers: choose 1 to {}", servers.size(),
           kMaxParameterShards);
    }
    for (RemoteBinding& place : servers) {
      place.listen = false;
      place.max_message_size = 0;
      shards.push_back({std::move(place), {}, false, {}, 0});
    }
    connect();
  }

  void connect() {
    for (Shard& shard : shards) {
      shard.streams = {};
      shard.greeted = false;
      shard.layout.reset();
      shard.streams = make_parameter_streams(shard.place, options.worker, options.transport);
    }
    values.clear();
    pulled = false;
  }

  /// Does something with one server; its Error names the server.
  template <typename Action>
  auto with(Shard& shard, Action&& action) {
    try {
      if (shard.streams.gradients == nullptr) {
        fail(ErrorCode::kFailedPrecondition, "this worker has closed: call reconnect");
      }
      return action();
    } catch (const Error& error) {
      fail(error.code(), "parameter server {}:{}, worker {}: {}", shard.place.host,
           shard.place.port, options.worker, error.what());
    }
  }

  Message receive(Shard& shard, Deadline deadline) {
    std::optional<Message> message = shard.streams.parameters->receive(deadline);
    if (!message) fail(ErrorCode::kUnavailable, "it has closed");
    check_refusal(*message);
    return std::move(*message);
  }

  void meet(Shard& shard, Deadline deadline) {
    const Message message = receive(shard, deadline);
    if (message.kind != MessageKind::kControl) fail(ErrorCode::kDataLoss, "no layout came");
    ParameterLayout layout = decode_parameter_layout(message.tensor.bytes());
    if (options.worker >= layout.workers) {
      fail(ErrorCode::kInvalidArgument, "it has {} workers, numbered from 0", layout.workers);
    }
    if (layout.shards != shards.size()) {
      fail(ErrorCode::kInvalidArgument, "it is one of {} servers, this worker was given {}",
           layout.shards, shards.size());
    }
    shard.layout = std::move(layout);
  }

  void receive_values(Shard& shard, Deadline deadline) {
    for (std::size_t i = 0; i < shard.layout->tensors.size(); ++i) {
      const auto& [name, spec] = shard.layout->tensors[i];
      Message message = receive(shard, deadline);
      if (message.kind != MessageKind::kActivation || message.micro_batch != i ||
          message.tensor.spec() != spec ||
          (i > 0 && message.step != static_cast<std::uint64_t>(shard.version))) {
        fail(ErrorCode::kDataLoss, "parameter '{}' was due, something else came", name);
      }
      shard.version = static_cast<std::int64_t>(message.step);
      values.insert_or_assign(name, std::move(message.tensor));
    }
  }

  /// Together the servers must hold every shard once, and all be at one version.
  void check_shards() const {
    std::set<std::uint32_t> seen;
    for (const Shard& shard : shards) {
      if (!seen.insert(shard.layout->shard).second) {
        fail(ErrorCode::kInvalidArgument, "two of the servers keep shard {} of {}",
             shard.layout->shard, shards.size());
      }
      if (shard.layout->mode != ParameterMode::Synchronous) continue;
      if (shard.version == shards.front().version) continue;
      fail(ErrorCode::kFailedPrecondition,
           "parameter servers {}:{} and {}:{} are at versions {} and {}: restart all of them from "
           "checkpoints of one version",
           shards.front().place.host, shards.front().place.port, shard.place.host, shard.place.port,
           shards.front().version, shard.version);
    }
  }

  void pull() {
    const bool first = !shards.front().greeted;
    const Deadline deadline = deadline_in(first ? options.first_contact : options.deadline);
    for (Shard& shard : shards) {
      if (shard.greeted) continue;
      ByteWriter greeting;
      greeting.raw(bytes_of(kWorkerGreeting));
      const Message hello{MessageKind::kControl, 0, 0, {}, greeting.take()};
      with(shard, [&] { shard.streams.gradients->send(hello, deadline); });
      shard.greeted = true;
    }
    for (Shard& shard : shards) {
      with(shard, [&] {
        if (!shard.layout) meet(shard, deadline);
        receive_values(shard, deadline);
      });
    }
    check_shards();
    pulled = true;
  }

  void push(const NamedTensors& gradients, const GradientWeight& weight) {
    if (!pulled) {
      fail(ErrorCode::kFailedPrecondition, "gradients come after parameters: call pull first");
    }
    const Bytes mark = encode(weight);
    static_cast<void>(decode_gradient_weight(mark));
    for (const auto& [name, value] : values) {
      const auto given = gradients.find(name);
      if (given != gradients.end() && given->second.spec() == value.spec()) continue;
      fail(ErrorCode::kInvalidArgument, "the gradient of '{}' must be {} {}", name,
           dtype_name(value.dtype()), shape_text(value.shape()));
    }
    pulled = false;
    const Deadline deadline = deadline_in(options.deadline);
    for (Shard& shard : shards) {
      with(shard, [&] {
        std::uint32_t index = 0;
        for (const auto& [name, spec] : shard.layout->tensors) {
          shard.streams.gradients->send(
              {MessageKind::kGradient, static_cast<std::uint64_t>(shard.version), index++,
               gradients.find(name)->second, mark},
              deadline);
        }
      });
    }
  }

  void close() {
    const Deadline deadline = deadline_in(options.closing);
    for (Shard& shard : shards) {
      if (shard.streams.gradients == nullptr) continue;
      with(shard, [&] {
        shard.streams.gradients->close(deadline);
        shard.streams.parameters->close(deadline);
      });
      shard.streams = {};
    }
    pulled = false;
  }

  ParameterClientOptions options;
  std::vector<Shard> shards;
  NamedTensors values;
  bool pulled = false;
};

ParameterClient::ParameterClient(std::vector<RemoteBinding> servers,
                                 const ParameterClientOptions& options)
    : state_(std::make_unique<State>(std::move(servers), options)) {}
ParameterClient::~ParameterClient() = default;
ParameterClient::ParameterClient(ParameterClient&&) noexcept = default;
ParameterClient& ParameterClient::operator=(ParameterClient&&) noexcept = default;

void ParameterClient::pull() { state_->pull(); }
const NamedTensors& ParameterClient::parameters() const { return state_->values; }
std::int64_t ParameterClient::version() const { return state_->shards.front().version; }
std::uint32_t ParameterClient::workers() const {
  const auto& layout = state_->shards.front().layout;
  if (!layout) fail(ErrorCode::kFailedPrecondition, "the servers are not known yet: pull first");
  return layout->workers;
}
std::uint32_t ParameterClient::worker() const { return state_->options.worker; }
void ParameterClient::push(const NamedTensors& gradients, std::int64_t samples,
                           std::int64_t batch_samples) {
  state_->push(gradients, {samples, batch_samples});
}
void ParameterClient::close() { state_->close(); }
void ParameterClient::reconnect() { state_->connect(); }

}  // namespace harmonics::inline in_schedule
