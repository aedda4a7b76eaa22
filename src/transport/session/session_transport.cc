#include "session_transport.h"

#include <algorithm>
#include <utility>

#include "frame/message_check.h"

namespace harmonics::inline in_transport {
namespace {

// How long an end that goes tries to tell the other one.
constexpr Nanoseconds kLastWords = std::chrono::seconds(1);

}  // namespace

SessionTransport::SessionTransport(RemoteBinding binding, TransportOptions options, Route route)
    : end_(std::move(binding), std::move(options), std::move(route)), io_(end_) {}

bool SessionTransport::start() {
  if (!io_.start()) return false;
  if (end_.options.stop) {
    alarm_.emplace(end_.options.stop, [this] {
      const Lock lock(end_.mutex);
      end_.notify_program();
      end_.workplace.wake();
    });
  }
  return true;
}

SessionTransport::~SessionTransport() { io_.stop(deadline_in(kLastWords)); }

std::string SessionTransport::connection_text() const {
  return end_.workplace.connection() ? "the link is up" : "there is no link: " + end_.trouble;
}

void SessionTransport::fail_wait(const Wait& wait, const std::string& what) const {
  if (wait.stop_from && std::chrono::steady_clock::now() < wait.deadline) {
    fail(ErrorCode::kCancelled, "{}: {} when this end was asked to stop ({}); {}", end_.where(),
         what, end_.options.stop->why(), connection_text());
  }
  fail(ErrorCode::kDeadlineExceeded, "{}: {} before the deadline; {}", end_.where(), what,
       connection_text());
}

// The deadline, or an earlier moment when it is asked to stop.
Deadline SessionTransport::end_of(Wait& wait) const {
  const auto& stop = end_.options.stop;
  if (!stop || !stop->asked()) return wait.deadline;
  if (!wait.stop_from) wait.stop_from = std::chrono::steady_clock::now();
  return std::min(wait.deadline,
                  stop->limit(*wait.stop_from, end_.workplace.connection() != nullptr));
}

void SessionTransport::check_usable() const {
  if (closed_) fail(ErrorCode::kFailedPrecondition, "{}: used after close", end_.where());
  if (end_.failure) throw *end_.failure;
}

// False once the wait is over. Returns for any reason: the caller looks again.
bool SessionTransport::wait_for_change(Lock& lock, std::condition_variable& change, Wait& wait) {
  const Deadline end = end_of(wait);
  Workplace& place = end_.workplace;
  if (place.connection()) place.connection()->push();
  if (place.connection() && !place.working()) {
    ++place.turns.works;
    end_.work(lock, std::min(end, end_.pulse.next_look()));
    // Someone else who waits may have to go on with the work.
    if (place.turns.waiting > 0) end_.notify_program();
    if (place.turns.deep_sleep) place.wake();
    return std::chrono::steady_clock::now() < end_of(wait);
  }
  ++place.turns.waiting;
  const bool in_time = change.wait_until(lock, end) == std::cv_status::no_timeout;
  --place.turns.waiting;
  return in_time || std::chrono::steady_clock::now() < end_of(wait);
}

Codec SessionTransport::await_peer(Lock& lock, const Message& message, Wait& wait) {
  const std::optional<Agreement>& agreement = end_.acquaintance.agreement();
  while (!agreement && !end_.failure && !closed_) {
    if (!wait_for_change(lock, end_.room, wait) && !agreement) {
      fail_wait(wait, format("message {} was not sent: the peer did not come",
                             end_.delivery.session().pushed() + 1));
    }
  }
  check_usable();
  check_size(end_.binding.name, message, agreement->max_message_size());
  return agreement->codec();
}

void SessionTransport::await_credit(Lock& lock, std::uint64_t cost, Wait& wait) {
  const Session& session = end_.delivery.session();
  for (;;) {
    check_usable();
    if (session.peer_ended()) {
      fail(ErrorCode::kUnavailable, "{}: the peer has closed; message {} was not sent",
           end_.where(), session.pushed() + 1);
    }
    if (session.may_push(cost)) return;
    if (session.must_ask(cost)) {
      end_.delivery.ask();
      end_.flush(lock);
      continue;  // the lock was let go meanwhile
    }
    if (!wait_for_change(lock, end_.room, wait) && !session.may_push(cost)) {
      check_usable();
      fail_wait(
          wait,
          format("message {} was not sent: the peer has not taken {} messages ({} bytes)",
                 session.pushed() + 1, session.in_flight_messages(), session.in_flight_bytes()));
    }
  }
}

void SessionTransport::send(const Message& message, Deadline deadline) {
  const RemoteBinding& binding = end_.binding;
  check_attachment(binding.name, message);
  check_framable(binding.name, message);
  if (binding.max_message_size != 0) {
    check_size(binding.name, message, static_cast<std::uint64_t>(binding.max_message_size));
  }
  Lock lock(end_.mutex);
  check_usable();
  Wait wait{deadline};
  const Codec codec = await_peer(lock, message, wait);
  lock.unlock();
  auto outgoing = std::make_shared<const OutgoingMessage>(encode_message(message, codec));
  lock.lock();
  await_credit(lock, outgoing->cost, wait);
  end_.delivery.push(std::move(outgoing));
  end_.flush(lock);
}

std::optional<Message> SessionTransport::receive(Deadline deadline) {
  Lock lock(end_.mutex);
  Delivery& delivery = end_.delivery;
  Wait wait{deadline};
  while (!delivery.has_message() || closed_) {
    if (closed_) check_usable();
    if (delivery.session().peer_ended()) return std::nullopt;
    check_usable();
    if (!wait_for_change(lock, end_.arrived, wait) && !delivery.has_message() &&
        !delivery.session().peer_ended()) {
      check_usable();
      fail_wait(wait,
                format("message {} did not come", delivery.session().progress().delivered + 1));
    }
  }
  std::optional<Message> message(delivery.take());
  if (delivery.session().owes_progress()) end_.flush(lock);
  return message;
}

void SessionTransport::close(Deadline deadline) {
  Lock lock(end_.mutex);
  if (closed_) return;
  closed_ = true;
  end_.delivery.stop_taking();
  end_.notify_program();
  const bool met = end_.acquaintance.agreement().has_value();
  const std::optional<Error> late = met ? await_end(lock, deadline) : std::nullopt;
  const Deadline last_words = met ? std::min(deadline, deadline_in(kLastWords)) : Deadline{};
  lock.unlock();
  io_.stop(last_words);
  if (late) throw *late;
}

// Says that nothing follows, and waits until the other end has it all or is gone; the error if it
// comes to neither.
std::optional<Error> SessionTransport::await_end(Lock& lock, Deadline deadline) {
  const Session& session = end_.delivery.session();
  const Workplace& place = end_.workplace;
  const Sequence end = end_.delivery.push_end();
  end_.flush(lock);
  const auto ended = [&] { return end_.failure || session.may_leave() || end_.peer_is_gone(); };
  Wait all{deadline};
  while (!ended() && std::chrono::steady_clock::now() < end_of(all)) {
    const bool lingers = session.peer_ended() && !place.connection();
    Wait once{lingers ? std::min(deadline, end_.linger_until) : deadline, all.stop_from};
    (void)wait_for_change(lock, end_.room, once);
  }
  if (ended() || (!place.connection() && session.peer_ended())) return std::nullopt;
  return Error(
      ErrorCode::kDeadlineExceeded,
      format("{}: closed, but the peer has {} of {} messages sent when the deadline came; {}",
             end_.where(), session.peer_delivered(), end - 1, connection_text()));
}

TransportStats SessionTransport::stats() const {
  const Lock lock(end_.mutex);
  TransportStats out = end_.delivery.stats();
  const ConnectionCounts counts = end_.workplace.counts();
  out.reconnects = end_.reconnects;
  out.socket_payload_sent = counts.socket_payload_sent;
  out.socket_payload_received = counts.socket_payload_received;
  return out;
}

}  // namespace harmonics::inline in_transport
