// What programs call: send, receive, close. The I/O thread's half is session_transport_io.cc.
#include "session_transport.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/log.h>

#include "frame/message_check.h"

namespace harmonics::inline in_transport {
namespace {

// How long an end that goes tries to tell the other one.
constexpr Nanoseconds kLastWords = std::chrono::seconds(1);

}  // namespace

SessionTransport::SessionTransport(RemoteBinding binding, TransportOptions options, Route route)
    : binding_(std::move(binding)),
      options_(std::move(options)),
      route_(std::move(route)),
      boundary_id_(boundary_id(binding_.name)),
      session_(options_.window),
      jitter_(instance_.low, "reconnect") {}

bool SessionTransport::start() {
  if (route_.listener && !route_.listener->reception().add(binding_.name, *this)) return false;
  thread_ = std::thread([this] { run(); });
  if (options_.stop) {
    alarm_.emplace(options_.stop, [this] {
      const Lock lock(mutex_);
      arrived_.notify_all();
      room_.notify_all();
      if (connection_) connection_->wake();
    });
  }
  return true;
}

SessionTransport::~SessionTransport() {
  if (!closed_) last_words_until_ = deadline_in(kLastWords);
  stop();
}

void SessionTransport::stop() {
  if (!thread_.joinable()) return;
  if (route_.listener) route_.listener->reception().remove(binding_.name);
  {
    Lock lock(mutex_);
    stopping_ = true;
    cancel_.signal();
    io_.notify_all();
    if (connection_) connection_->wake();
  }
  thread_.join();
}

std::string SessionTransport::where() const {
  const std::string peer =
      connection_ ? connection_->peer() : format("{}:{}", binding_.host, binding_.port);
  return format("boundary '{}' ({} to {})", binding_.name, transport_name(binding_.transport),
                peer);
}

void SessionTransport::fail_wait(const Wait& wait, const std::string& what) const {
  const std::string connection = connection_ ? "the link is up" : "there is no link: " + trouble_;
  if (wait.stop_from && std::chrono::steady_clock::now() < wait.deadline) {
    fail(ErrorCode::kCancelled, "{}: {} when this end was asked to stop ({}); {}", where(), what,
         options_.stop->why(), connection);
  }
  fail(ErrorCode::kDeadlineExceeded, "{}: {} before the deadline; {}", where(), what, connection);
}

// The deadline, or an earlier moment when it is asked to stop.
Deadline SessionTransport::end_of(Wait& wait) const {
  if (!options_.stop || !options_.stop->asked()) return wait.deadline;
  if (!wait.stop_from) wait.stop_from = std::chrono::steady_clock::now();
  return std::min(wait.deadline, options_.stop->limit(*wait.stop_from, connection_ != nullptr));
}

void SessionTransport::check_usable() const {
  if (closed_) fail(ErrorCode::kFailedPrecondition, "{}: used after close", where());
  if (failure_) throw *failure_;
}

// False once the wait is over. Returns for any reason: the caller looks again.
bool SessionTransport::wait_for_change(Lock& lock, std::condition_variable& change, Wait& wait) {
  const Deadline end = end_of(wait);
  if (connection_) connection_->push();
  if (connection_ && !working_) {
    ++works_;
    work(lock, std::min(end, next_look_));
    // Someone else who waits may have to go on with the work.
    if (waiting_ > 0) {
      arrived_.notify_all();
      room_.notify_all();
    }
    if (deep_sleep_ && connection_) connection_->wake();
    return std::chrono::steady_clock::now() < end_of(wait);
  }
  ++waiting_;
  const bool in_time = change.wait_until(lock, end) == std::cv_status::no_timeout;
  --waiting_;
  return in_time || std::chrono::steady_clock::now() < end_of(wait);
}

Codec SessionTransport::await_peer(Lock& lock, const Message& message, Wait& wait) {
  while (!agreement_ && !failure_ && !closed_) {
    if (!wait_for_change(lock, room_, wait) && !agreement_) {
      fail_wait(wait,
                format("message {} was not sent: the peer did not come", session_.pushed() + 1));
    }
  }
  check_usable();
  check_size(binding_.name, message, agreement_->max_message_size());
  return agreement_->codec();
}

void SessionTransport::await_credit(Lock& lock, std::uint64_t cost, Wait& wait) {
  for (;;) {
    check_usable();
    if (session_.peer_ended()) {
      fail(ErrorCode::kUnavailable, "{}: the peer has closed; message {} was not sent", where(),
           session_.pushed() + 1);
    }
    if (session_.may_push(cost)) return;
    if (session_.must_ask(cost)) {
      session_.asked();
      ask_due_ = true;
      flush(lock);
      continue;  // the lock was let go meanwhile
    }
    if (!wait_for_change(lock, room_, wait) && !session_.may_push(cost)) {
      check_usable();
      fail_wait(
          wait,
          format("message {} was not sent: the peer has not taken {} messages ({} bytes)",
                 session_.pushed() + 1, session_.in_flight_messages(), session_.in_flight_bytes()));
    }
  }
}

void SessionTransport::send(const Message& message, Deadline deadline) {
  check_attachment(binding_.name, message);
  check_framable(binding_.name, message);
  if (binding_.max_message_size != 0) {
    check_size(binding_.name, message, static_cast<std::uint64_t>(binding_.max_message_size));
  }
  Lock lock(mutex_);
  check_usable();
  Wait wait{deadline};
  const Codec codec = await_peer(lock, message, wait);
  lock.unlock();
  auto outgoing = std::make_shared<const OutgoingMessage>(encode_message(message, codec));
  lock.lock();
  await_credit(lock, outgoing->cost, wait);
  (void)session_.push(outgoing->cost);
  ++stats_.messages_sent;
  stats_.bytes_sent += outgoing->cost;
  outbox_bytes_ += outgoing->cost;
  outbox_.push_back(std::move(outgoing));
  stats_.peak_retained_bytes = std::max(stats_.peak_retained_bytes, outbox_bytes_);
  stats_.peak_retained_messages =
      std::max<std::uint64_t>(stats_.peak_retained_messages, outbox_.size());
  flush(lock);
}

std::optional<Message> SessionTransport::receive(Deadline deadline) {
  Lock lock(mutex_);
  Wait wait{deadline};
  while (inbox_.empty() || closed_) {
    if (closed_) check_usable();
    if (session_.peer_ended()) return std::nullopt;
    check_usable();
    if (!wait_for_change(lock, arrived_, wait) && inbox_.empty() && !session_.peer_ended()) {
      check_usable();
      fail_wait(wait, format("message {} did not come", session_.progress().delivered + 1));
    }
  }
  std::optional<Message> message(std::move(inbox_.front()));
  inbox_.pop_front();
  session_.consume();
  ++stats_.messages_received;
  stats_.bytes_received += message_bytes(*message);
  if (session_.owes_progress()) flush(lock);
  return message;
}

void SessionTransport::close(Deadline deadline) {
  Lock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  for (; !inbox_.empty(); inbox_.pop_front()) session_.consume();
  arrived_.notify_all();
  room_.notify_all();
  if (agreement_) {
    const Sequence end = session_.push_end();
    outbox_.push_back(nullptr);
    flush(lock);
    const auto ended = [&] { return failure_ || session_.may_leave() || peer_is_gone(); };
    Wait all{deadline};
    while (!ended() && std::chrono::steady_clock::now() < end_of(all)) {
      const bool lingers = session_.peer_ended() && !connection_;
      Wait once{lingers ? std::min(deadline, linger_until_) : deadline, all.stop_from};
      (void)wait_for_change(lock, room_, once);
    }
    last_words_until_ = std::min(deadline, deadline_in(kLastWords));
    if (!ended() && (connection_ || !session_.peer_ended())) {
      const std::string what =
          format("the peer has {} of {} messages sent", session_.peer_delivered(), end - 1);
      const Error late(ErrorCode::kDeadlineExceeded,
                       format("{}: closed, but {} when the deadline came; {}", where(), what,
                              connection_ ? "the link is up" : "there is no link: " + trouble_));
      lock.unlock();
      stop();
      throw late;
    }
  }
  lock.unlock();
  stop();
}

TransportStats SessionTransport::stats() const {
  const Lock lock(mutex_);
  TransportStats out = stats_;
  const ConnectionCounts now = connection_ ? connection_->counts() : ConnectionCounts{};
  out.socket_payload_sent = past_counts_.socket_payload_sent + now.socket_payload_sent;
  out.socket_payload_received = past_counts_.socket_payload_received + now.socket_payload_received;
  return out;
}

}  // namespace harmonics::inline in_transport
