// ParameterSlot: a server's side of one worker's streams (private to schedule).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include <harmonics/base/channel.h>

#include "parameter_store.h"
#include "parameter_wire.h"

namespace harmonics::inline in_schedule {

/// The parameters that a worker gets.
struct ParameterVersion {
  std::int64_t version = 0;
  NamedTensors values;
};

/// What a worker does.
struct WorkerEvent {
  enum class Kind { kJoined, kPushed, kLeft };
  /// How a worker went.
  enum class End { kClosed, kLost, kRefused };
  std::uint32_t worker = 0;
  Kind kind = Kind::kJoined;
  Contribution contribution = {};
  End end = End::kClosed;
};

/// Talks to one worker after another on a thread of its own: each event that wants parameters is
/// reported once and waits for `answer`. Destroying it lets go of the worker.
class ParameterSlot {
 public:
  /// Events go to `report`, which answers false when nobody takes them any more.
  using Report = std::function<bool(WorkerEvent)>;

  ParameterSlot(const RemoteBinding& place, std::uint32_t worker, const ParameterLayout& layout,
                const ParameterServerOptions& options, Report report);
  ~ParameterSlot();
  ParameterSlot(const ParameterSlot&) = delete;
  ParameterSlot& operator=(const ParameterSlot&) = delete;

  /// Where this slot's worker is awaited, with the real port.
  [[nodiscard]] const RemoteBinding& place() const { return place_; }
  /// Begins to serve.
  void start();
  /// Gives the worker that waits its parameters.
  void answer(ParameterVersion version) { answers_.push(std::move(version)); }

 private:
  void serve();
  /// One worker from its greeting to its end.
  void serve_one();
  [[nodiscard]] bool open();
  void await_greeting();
  void send(const ParameterVersion& version);
  /// Nothing once the worker has closed.
  [[nodiscard]] std::optional<Contribution> receive(std::int64_t version);
  void check(const Message& message, std::size_t index, std::int64_t version) const;
  void refuse(const std::string& why) noexcept;

  RemoteBinding place_;
  const std::uint32_t worker_;
  const ParameterLayout layout_;
  const ParameterServerOptions& options_;
  const Report report_;
  std::mutex mutex_;  // guards what follows
  ParameterStreams streams_;
  bool stopping_ = false;
  Channel<ParameterVersion> answers_{1};
  std::thread thread_;
};

}  // namespace harmonics::inline in_schedule
