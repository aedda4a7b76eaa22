#include "session_io.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/escaped.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_transport {
namespace {

// How long the I/O thread leaves the connection to program threads that come and go: the longer
// they have been at it without a pause, the longer.
constexpr Nanoseconds kDoze = std::chrono::milliseconds(1);
constexpr Nanoseconds kLongestDoze = std::chrono::milliseconds(8);
// A process binds its boundaries one after the other; one that still lacks ours after so many
// attempts (a third of a second, if it was there first) most likely never will have it.
constexpr int kNotFoundBeforeWarning = 7;

/// What came of an attempt to connect.
struct Attempt {
  std::string reason;              // empty: it succeeded
  std::optional<Error> permanent;  // another one would end in the same way
  bool stranger = false;           // whoever answers is not one of us
  bool nobody = false;             // another process, which has no such boundary
};

void note_failure(Attempt& attempt, const Refused& refused) {
  attempt.reason = refused.what();
  if (!refused.passing()) attempt.permanent = refused;
  attempt.nobody = refused.code() == ErrorCode::kNotFound;
  // Our version did not get there as we sent it, if we have met before.
  attempt.stranger = refused.code() == ErrorCode::kUnimplemented;
}

void note_failure(Attempt& attempt, const Error& error) {
  attempt.reason = error.what();
  // Whoever answers there is not one of us, or speaks another version: waiting does not help.
  // Unless we have met before: then it was damage on the way.
  attempt.stranger = error.code() == ErrorCode::kInvalidArgument ||
                     error.code() == ErrorCode::kUnimplemented ||
                     error.code() == ErrorCode::kUnauthenticated;
  if (attempt.stranger) attempt.permanent = error;
}

}  // namespace

SessionIo::SessionIo(SessionEnd& end)
    : end_(end), jitter_(end.acquaintance.own().low, "reconnect") {}

bool SessionIo::start() {
  const ListenerPtr& listener = end_.route.listener;
  if (listener && !listener->reception().add(end_.binding.name, *this)) return false;
  thread_ = std::thread([this] { run(); });
  return true;
}

void SessionIo::stop(Deadline last_words) {
  if (!thread_.joinable()) return;
  if (end_.route.listener) end_.route.listener->reception().remove(end_.binding.name);
  {
    const Lock lock(end_.mutex);
    last_words_until_ = last_words;
    end_.stopping = true;
    cancel_.signal();
    end_.io.notify_all();
    end_.workplace.wake();
  }
  thread_.join();
}

// --- greetings ---

Greeting SessionIo::greeting() {
  const Lock lock(end_.mutex);
  Greeting out = end_.acquaintance.introduce();
  out.run = end_.options.run;
  out.boundary = end_.binding.name;
  out.progress = end_.delivery.session().progress();
  out.window = end_.options.window;
  out.compress = end_.binding.compress;
  out.max_message_size = static_cast<std::uint64_t>(end_.binding.max_message_size);
  return out;
}

void SessionIo::judge(const Greeting& theirs) {
  const Lock lock(end_.mutex);
  const std::string& boundary = end_.binding.name;
  const auto refuse = [](ErrorCode code, const std::string& why, bool passing) {
    throw Refused(code, why, passing);
  };
  if (theirs.run != end_.options.run) {
    refuse(ErrorCode::kFailedPrecondition,
           format("boundary '{}' belongs to run '{}' here and to run '{}' there", boundary,
                  end_.options.run, escaped(theirs.run)),
           false);
  }
  if (theirs.boundary != boundary) {
    refuse(ErrorCode::kFailedPrecondition,
           format("this is boundary '{}', not '{}'", boundary, escaped(theirs.boundary)), false);
  }
  if (end_.stopping || end_.failure) {
    refuse(ErrorCode::kUnavailable, "this end is shutting down", true);
  }
  end_.acquaintance.judge(theirs);
  if (end_.acquaintance.fits(theirs)) return;
  if (end_.workplace.connection() || end_.acquaintance.has_offer()) {
    refuse(ErrorCode::kAlreadyExists, format("boundary '{}' has a peer already", boundary), true);
  }
  end_.give_up(
      ErrorCode::kAborted,
      "the peer was restarted and lost its state; resume the run from its last checkpoint");
  refuse(ErrorCode::kAborted, "the other life of this peer was in the middle of the run", true);
}

ConnectionPtr SessionIo::make_connection(StreamPtr stream, const Agreement& agreement,
                                         Deadline deadline) {
  return end_.route.make_connection(std::move(stream), agreement, deadline);
}

void SessionIo::adopt(const GreetedConnection& greeted) {
  const Lock lock(end_.mutex);
  if (!end_.acquaintance.offer(greeted)) return;
  end_.workplace.wake();
  end_.io.notify_all();
}

void SessionIo::note_refusal(const std::string& reason) {
  const Lock lock(end_.mutex);
  if (!end_.workplace.connection()) end_.trouble = reason;
}

// --- the thread ---

void SessionIo::run() {
  while (const ConnectionPtr connection = next_connection()) serve(connection);
  Lock lock(end_.mutex);
  if (end_.workplace.connection()) {
    say_last_words(lock);
    end_.lose_connection("this end is shutting down");
  }
  end_.acquaintance.refuse_offer();
}

// Tells a peer that would wait otherwise. Program threads that are still here find the end closed
// and go; until then the connection is theirs.
void SessionIo::say_last_words(Lock& lock) {
  Workplace& place = end_.workplace;
  if (!end_.io.wait_until(lock, last_words_until_, [&] { return place.empty(); })) return;
  if (place.connection()) place.say_last(lock, end_.delivery.last_words(), last_words_until_);
}

ConnectionPtr SessionIo::next_connection() {
  Lock lock(end_.mutex);
  for (;;) {
    if (end_.stopping) return nullptr;
    if (end_.acquaintance.has_offer()) {
      take_over(lock);
      if (end_.workplace.connection()) return end_.workplace.connection();
    } else if (end_.failure || end_.peer_is_gone() || end_.route.listener) {
      end_.io.wait(lock);
    } else {
      try_to_connect(lock);
    }
  }
}

// The first attempt comes at once, the next ones ever later, up to a limit, none at a fixed beat.
// False when the end stops meanwhile.
bool SessionIo::pause_before_attempt(Lock& lock) {
  if (failed_attempts_ == 0) return true;
  const TransportOptions& options = end_.options;
  const int doublings = std::min(failed_attempts_ - 1, 20);
  const Nanoseconds pause =
      std::min(options.retry_longest, options.retry_first * (std::int64_t{1} << doublings));
  const auto share = 0.5F + 0.5F * jitter_.uniform();
  const auto wait = std::chrono::duration_cast<Nanoseconds>(pause * share);
  return !end_.io.wait_for(lock, wait, [&] { return end_.stopping; });
}

void SessionIo::try_to_connect(Lock& lock) {
  if (!pause_before_attempt(lock)) return;
  ++failed_attempts_;
  lock.unlock();
  Attempt attempt;
  try {
    const Deadline deadline = deadline_in(end_.options.handshake_timeout);
    adopt(greet_as_connector(end_.route.connect(deadline, cancel_), *this, deadline, &cancel_));
  } catch (const Refused& refused) {
    note_failure(attempt, refused);
  } catch (const Error& error) {
    note_failure(attempt, error);
  }
  lock.lock();
  const bool met = end_.acquaintance.agreement().has_value();
  if (!attempt.reason.empty() && !end_.acquaintance.has_offer()) end_.trouble = attempt.reason;
  if (attempt.nobody && end_.delivery.session().peer_ended()) {
    end_.linger_until = {};  // the place is there, the peer is not
    end_.room.notify_all();
  }
  if (attempt.permanent && !(attempt.stranger && met)) {
    end_.give_up(attempt.permanent->code(), attempt.permanent->what());
  }
  if (attempt.nobody && !met && ++not_found_ == kNotFoundBeforeWarning) {
    log_warn("transport",
             "{}: another process listens there and has no such boundary: each boundary between "
             "other processes needs a place of its own ({})",
             end_.where(), attempt.reason);
  }
}

void SessionIo::take_over(Lock& lock) {
  const GreetedConnection offer = end_.acquaintance.take_offer();
  if (end_.workplace.connection()) end_.lose_connection("replaced by a new link");
  if (end_.failure) {
    offer.connection->shut();
    return;
  }
  try {
    const Agreement& agreement = offer.agreement;
    end_.delivery.session().resume(agreement.theirs.progress, agreement.theirs.window,
                                   agreement.ours.progress);
  } catch (const Error& error) {
    offer.connection->shut();
    end_.give_up(error.code(), error.what());
    return;
  }
  if (end_.acquaintance.agreement()) ++end_.reconnects;
  end_.acquaintance.agree(offer.agreement);
  end_.workplace.open(offer.connection);
  failed_attempts_ = 0;
  end_.pulse.start(std::chrono::steady_clock::now());
  log_debug("transport", "{}: link up", end_.where());
  end_.delivery.forget_delivered();
  end_.room.notify_all();
  end_.flush(lock);
}

void SessionIo::serve(const ConnectionPtr& connection) {
  Lock lock(end_.mutex);
  Workplace& place = end_.workplace;
  Turns& turns = place.turns;
  std::uint64_t works_seen = turns.works;
  Nanoseconds doze = kDoze;
  while (!end_.stopping && !end_.acquaintance.has_offer() && place.connection() == connection) {
    const bool held_back = connection->holds_back();
    connection->push();
    const bool program_works = std::exchange(works_seen, turns.works) != turns.works;
    if (!program_works || held_back) doze = kDoze;
    if (!place.working() && !program_works) {
      const bool awaited = turns.waiting > 0;
      turns.io_works = true;
      end_.work(lock, end_.pulse.next_look());
      turns.io_works = false;
      // The program waits for what we read: it may as well read the next one itself.
      if (awaited) ++turns.works;
      continue;
    }
    turns.deep_sleep = place.working() && !program_works;
    // A beat that is due is for who works to keep: until he has, this thread must not spin.
    const Deadline look = end_.pulse.next_look();
    const Deadline until =
        std::max(turns.deep_sleep ? look : std::min(look, deadline_in(doze)), deadline_in(kDoze));
    doze = std::min(2 * doze, kLongestDoze);
    lock.unlock();
    connection->doze(until);
    lock.lock();
    turns.deep_sleep = false;
    if (!place.working() && place.connection() == connection) {
      end_.settle(lock, {connection, std::nullopt}, false);
    }
  }
}

}  // namespace harmonics::inline in_transport
