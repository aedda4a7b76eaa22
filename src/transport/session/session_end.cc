#include "session_end.h"

#include <utility>

#include <harmonics/base/log.h>

namespace harmonics::inline in_transport {
namespace {

// An end whose connection is cut after the other one's end cannot tell whether that one knows that
// all has arrived. It stays for that one to come back, so many limits of silence (in which the
// other one may not have noticed the cut) and longest pauses between attempts.
constexpr int kLingerSilences = 2;
constexpr int kLingerRetries = 4;

}  // namespace

SessionEnd::SessionEnd(RemoteBinding its_binding, TransportOptions its_options, Route its_route)
    : binding(std::move(its_binding)),
      options(std::move(its_options)),
      route(std::move(its_route)),
      delivery(boundary_id(binding.name), options.window),
      pulse(options.heartbeat, route.may_reconnect ? options.ask_again : Nanoseconds(0)) {}

void SessionEnd::work(Lock& lock, Deadline until) {
  const Workplace::Work done = workplace.work(lock, until);
  if (stopping) io.notify_all();
  settle(lock, done, true);
}

void SessionEnd::settle(Lock& lock, const Workplace::Work& done, bool has_read) {
  const auto still_ours = [&] { return workplace.connection() == done.connection; };
  if (still_ours()) take_frames();
  workplace.frames().clear();
  if (still_ours()) keep_time(*done.connection, has_read);
  if (still_ours() && delivery.session().peer_left()) lose_connection("the peer has closed");
  if (still_ours() && done.broken) connection_broke(*done.broken);
  flush(lock);
}

void SessionEnd::take_frames() {
  try {
    // What came whole before a break still counts.
    for (ReceivedFrame& frame : workplace.frames()) delivery.arrive(frame);
  } catch (const Error& error) {
    // The frames were whole, so it is the peer that breaks the rules: a new connection would not
    // help.
    give_up(error.code(), error.what());
  }
  if (!workplace.frames().empty()) {
    delivery.forget_delivered();
    notify_program();
  }
}

// Silence is only what a thread that has just looked does not hear: one that was kept from its work
// must not take its own absence for the other end's.
void SessionEnd::keep_time(const Connection& connection, bool has_read) {
  const Deadline now = std::chrono::steady_clock::now();
  if (has_read && route.silence_limit > Nanoseconds(0) &&
      now - connection.last_heard() > route.silence_limit) {
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(route.silence_limit);
    connection_broke(Error(ErrorCode::kUnavailable, format("no sign of life from {} for {} ms",
                                                           connection.peer(), limit.count())));
    return;
  }
  const Pulse::Due due = pulse.look(now, delivery.session(), workplace.unfinished());
  if (due.probes > 0) delivery.probe(due.probes);
  if (due.beat) delivery.beat();
}

void SessionEnd::connection_broke(const Error& error) {
  // A frame whose checksums are right and that is still too large will be so on every connection;
  // anything else may have happened on the way.
  const bool hopeless = error.code() == ErrorCode::kResourceExhausted;
  if (hopeless) {
    give_up(error.code(), error.what());
  } else {
    lose_connection(error.what());
  }
}

void SessionEnd::flush(Lock& lock) {
  if (const std::optional<Error> broken = workplace.flush(lock, delivery)) {
    lose_connection(broken->what());
  }
  if (stopping) io.notify_all();
}

void SessionEnd::lose_connection(const std::string& reason) {
  if (!workplace.connection()) return;
  workplace.close();
  if (route.may_reconnect) {
    linger_until =
        deadline_in(kLingerSilences * route.silence_limit + kLingerRetries * options.retry_longest);
  }
  delivery.cut();
  pulse.cut();
  trouble = reason;
  io.notify_all();
  room.notify_all();
  if (!stopping) log_debug("transport", "{}: link lost: {}", where(), reason);
  if (!route.may_reconnect && !delivery.session().peer_ended() && !stopping) {
    give_up(ErrorCode::kUnavailable, "the peer died: " + reason);
  }
  arrived.notify_all();
}

bool SessionEnd::peer_is_gone() const {
  const Session& session = delivery.session();
  if (!session.peer_ended() || workplace.connection() || acquaintance.has_offer()) return false;
  return session.peer_left() || std::chrono::steady_clock::now() >= linger_until;
}

void SessionEnd::give_up(ErrorCode code, const std::string& what) {
  if (failure) return;
  failure = Error(
      code, format("{}, after message {} received and {} sent: {}", where(),
                   delivery.session().progress().delivered, delivery.session().pushed(), what));
  lose_connection(what);
  notify_program();
  io.notify_all();
}

std::string SessionEnd::where() const {
  const ConnectionPtr& connection = workplace.connection();
  const std::string peer =
      connection ? connection->peer() : format("{}:{}", binding.host, binding.port);
  return format("boundary '{}' ({} to {})", binding.name, transport_name(binding.transport), peer);
}

void SessionEnd::notify_program() {
  arrived.notify_all();
  room.notify_all();
}

}  // namespace harmonics::inline in_transport
