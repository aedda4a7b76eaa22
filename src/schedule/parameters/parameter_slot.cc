#include "parameter_slot.h"

#include <algorithm>
#include <cmath>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "remote/farewell.h"

namespace harmonics::inline in_schedule {
namespace {

/// An empty place waits as long as it takes; the wait is renewed this often.
constexpr Nanoseconds kVacancy = std::chrono::hours(24);

template <typename T>
bool all_finite(const Tensor& tensor) {
  return std::ranges::all_of(tensor.values<T>(), [](T value) { return std::isfinite(value); });
}

bool all_finite(const Tensor& tensor) {
  return tensor.dtype() == DType::kFloat32 ? all_finite<float>(tensor) : all_finite<double>(tensor);
}

/// A worker that does not keep to the rules.
struct Refusal {
  std::string why;
};

}  // namespace

ParameterSlot::ParameterSlot(const RemoteBinding& place, std::uint32_t worker,
                             const ParameterLayout& layout, const ParameterServerOptions& options,
                             Report report)
    : place_(place),
      worker_(worker),
      layout_(layout),
      options_(options),
      report_(std::move(report)) {
  streams_ = make_parameter_streams(place_, worker_, options_.transport);
  place_.port = streams_.gradients->binding().port;
}

ParameterSlot::~ParameterSlot() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // Wakes the thread; the worker is told that this end has closed.
    for (Transport* end : {streams_.gradients.get(), streams_.parameters.get()}) {
      if (end == nullptr) continue;
      try {
        end->close(deadline_in(Nanoseconds(0)));
      } catch (const std::exception& error) {
        log_debug("schedule", "parameter server, worker {}: {}", worker_, error.what());
      }
    }
  }
  answers_.close();
  if (thread_.joinable()) thread_.join();
}

void ParameterSlot::start() {
  thread_ = std::thread([this] { serve(); });
}

bool ParameterSlot::open() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  if (streams_.gradients == nullptr) {
    streams_ = make_parameter_streams(place_, worker_, options_.transport);
  }
  return true;
}

void ParameterSlot::serve() {
  try {
    while (open()) {
      serve_one();
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      streams_ = {};
    }
  } catch (const std::exception& error) {
    log_warn("schedule", "parameter server: nobody can be worker {} any more: {}", worker_,
             error.what());
  }
}

void ParameterSlot::serve_one() {
  WorkerEvent last{worker_, WorkerEvent::Kind::kLeft, {}, WorkerEvent::End::kClosed};
  bool joined = false;
  try {
    await_greeting();
    joined = report_({worker_, WorkerEvent::Kind::kJoined});
    std::optional<ParameterVersion> version = answers_.pop(decltype(answers_)::kForever);
    if (version) {
      streams_.parameters->send({MessageKind::kControl, 0, 0, bytes_tensor(encode(layout_)), {}},
                                deadline_in(options_.worker_deadline));
    }
    while (version) {
      send(*version);
      std::optional<Contribution> contribution = receive(version->version);
      if (!contribution) break;
      report_({worker_, WorkerEvent::Kind::kPushed, std::move(*contribution)});
      version = answers_.pop(decltype(answers_)::kForever);
    }
  } catch (const Refusal& refusal) {
    last.end = WorkerEvent::End::kRefused;
    log_warn("schedule", "parameter server refuses worker {}: {}", worker_, refusal.why);
    refuse(refusal.why);
  } catch (const Error& error) {
    // Whoever closes instead of taking the last parameters has left in peace.
    const bool closed = error.code() == ErrorCode::kUnavailable;
    if (!closed) last.end = WorkerEvent::End::kLost;
    const std::lock_guard lock(mutex_);
    if (joined && !closed && !stopping_) {
      log_warn("schedule", "parameter server lost worker {}: {}", worker_, error.what());
    }
  }
  if (joined) report_(std::move(last));
}

void ParameterSlot::await_greeting() {
  std::optional<Message> message;
  while (!message) {
    try {
      message = streams_.gradients->receive(deadline_in(kVacancy));
      if (!message) fail(ErrorCode::kUnavailable, "it has closed");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    }
  }
  const ByteSpan expected = bytes_of(kWorkerGreeting);
  if (message->kind != MessageKind::kControl ||
      !std::ranges::equal(message->attachment, expected)) {
    throw Refusal{"that is no greeting of a worker of this version"};
  }
}

void ParameterSlot::send(const ParameterVersion& version) {
  std::uint32_t index = 0;
  for (const auto& [name, value] : version.values) {
    streams_.parameters->send(
        {MessageKind::kActivation, static_cast<std::uint64_t>(version.version), index++, value, {}},
        deadline_in(options_.worker_deadline));
  }
}

void ParameterSlot::check(const Message& message, std::size_t index, std::int64_t version) const {
  const auto& [name, spec] = layout_.tensors[index];
  if (message.kind != MessageKind::kGradient ||
      message.step != static_cast<std::uint64_t>(version) || message.micro_batch != index) {
    throw Refusal{format("gradient {} ('{}') of version {} was due, {} {} of version {} came",
                         index, name, version, message_kind_name(message.kind), message.micro_batch,
                         message.step)};
  }
  if (message.tensor.spec() != spec) {
    throw Refusal{format("the gradient of '{}' must be {} {}, {} {} came", name,
                         dtype_name(spec.dtype), shape_text(spec.shape),
                         dtype_name(message.tensor.dtype()), shape_text(message.tensor.shape()))};
  }
  if (!all_finite(message.tensor)) {
    throw Refusal{format("the gradient of '{}' has values that are not finite", name)};
  }
}

std::optional<Contribution> ParameterSlot::receive(std::int64_t version) {
  Contribution contribution;
  for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
    std::optional<Message> message =
        streams_.gradients->receive(deadline_in(options_.worker_deadline));
    if (!message) {
      if (i == 0) return std::nullopt;
      fail(ErrorCode::kAborted, "it closed in the middle of its gradients");
    }
    check(*message, i, version);
    try {
      contribution.weight = decode_gradient_weight(message->attachment);
    } catch (const Error& error) {
      throw Refusal{error.what()};
    }
    contribution.gradients.emplace(layout_.tensors[i].first, std::move(message->tensor));
  }
  return contribution;
}

void ParameterSlot::refuse(const std::string& why) noexcept {
  try {
    const Deadline deadline = deadline_in(kFarewell);
    streams_.parameters->send({MessageKind::kControl, 0, 1, bytes_tensor(bytes_of(why)), {}},
                              deadline);
    streams_.parameters->close(deadline);
  } catch (const std::exception& error) {
    log_debug("schedule", "parameter server, worker {}: {}", worker_, error.what());
  }
}

}  // namespace harmonics::inline in_schedule
