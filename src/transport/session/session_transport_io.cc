// The I/O thread of a session transport, its greetings, and writing to the connection.
#include <algorithm>
#include <utility>

#include <harmonics/base/escaped.h>
#include <harmonics/base/log.h>

#include "session_transport.h"

namespace harmonics::inline in_transport {
namespace {

// How long the I/O thread leaves the connection to program threads that come and go: the longer
// they have been at it without a pause, the longer.
constexpr Nanoseconds kDoze = std::chrono::milliseconds(1);
constexpr Nanoseconds kLongestDoze = std::chrono::milliseconds(8);
// An end whose connection is cut after the other one's end cannot tell whether that one knows that
// all has arrived. It stays for that one to come back, so many limits of silence (in which the
// other one may not have noticed the cut) and longest pauses between attempts.
constexpr int kLingerSilences = 2;
constexpr int kLingerRetries = 4;
// A process binds its boundaries one after the other; one that still lacks ours after so many
// attempts (a third of a second, if it was there first) most likely never will have it.
constexpr int kNotFoundBeforeWarning = 7;
// How often a missing acknowledgement is looked for in the time that it may stay out.
constexpr int kLooksPerAsking = 2;
// So many answer times an acknowledgement may stay out.
constexpr int kAnswerTimes = 4;
// It is asked for so often, with four times as many frames each time: where bytes were lost, the
// other end waits for as many as are missing before it can see that something is wrong.
constexpr int kMaxAsked = 5;

}  // namespace

// --- greetings ---

Greeting SessionTransport::greeting() {
  const Lock lock(mutex_);
  Greeting out;
  out.run = options_.run;
  out.boundary = binding_.name;
  out.instance = instance_;
  if (agreement_) out.peer = agreement_->theirs.instance;
  out.attempt = ++greetings_;
  out.progress = session_.progress();
  out.window = options_.window;
  out.compress = binding_.compress;
  out.max_message_size = static_cast<std::uint64_t>(binding_.max_message_size);
  out.nonce = random_nonce();
  return out;
}

void SessionTransport::judge(const Greeting& theirs) {
  const Lock lock(mutex_);
  const auto refuse = [](ErrorCode code, const std::string& why, bool passing) {
    throw Refused(code, why, passing);
  };
  if (theirs.run != options_.run) {
    refuse(ErrorCode::kFailedPrecondition,
           format("boundary '{}' belongs to run '{}' here and to run '{}' there", binding_.name,
                  options_.run, escaped(theirs.run)),
           false);
  }
  if (theirs.boundary != binding_.name) {
    refuse(ErrorCode::kFailedPrecondition,
           format("this is boundary '{}', not '{}'", binding_.name, escaped(theirs.boundary)),
           false);
  }
  if (stopping_ || failure_) refuse(ErrorCode::kUnavailable, "this end is shutting down", true);
  if (theirs.instance == instance_) {
    refuse(ErrorCode::kFailedPrecondition, "this end has connected to itself", false);
  }
  if (theirs.peer.known() && theirs.peer != instance_) {
    refuse(ErrorCode::kAborted,
           format("boundary '{}': this end was restarted and lost its state; restart the run from "
                  "its last checkpoint",
                  binding_.name),
           false);
  }
  const std::optional<InstanceId> known = known_peer();
  if (!known || *known == theirs.instance) return;
  if (connection_ || offer_) {
    refuse(ErrorCode::kAlreadyExists, format("boundary '{}' has a peer already", binding_.name),
           true);
  }
  give_up(ErrorCode::kAborted,
          "the peer was restarted and lost its state; resume the run from its last checkpoint");
  refuse(ErrorCode::kAborted, "the other life of this peer was in the middle of the run", true);
}

ConnectionPtr SessionTransport::make_connection(StreamPtr stream, const Agreement& agreement,
                                                Deadline deadline) {
  return route_.make_connection(std::move(stream), agreement, deadline);
}

void SessionTransport::adopt(const GreetedConnection& greeted) {
  const Lock lock(mutex_);
  const std::optional<InstanceId> known = known_peer();
  if (known && *known != greeted.agreement.theirs.instance) {
    greeted.connection->shut();  // two came at once, and the other one was first
    return;
  }
  if (greeted.agreement.theirs.attempt <= newest_attempt_) {
    greeted.connection->shut();  // the peer has given this connection up for a newer one already
    return;
  }
  newest_attempt_ = greeted.agreement.theirs.attempt;
  if (offer_) offer_->connection->shut();
  offer_ = greeted;
  if (connection_) connection_->wake();
  io_.notify_all();
}

void SessionTransport::note_refusal(const std::string& reason) {
  const Lock lock(mutex_);
  if (!connection_) trouble_ = reason;
}

std::optional<InstanceId> SessionTransport::known_peer() const {
  if (agreement_) return agreement_->theirs.instance;
  if (offer_) return offer_->agreement.theirs.instance;
  return std::nullopt;
}

// --- the I/O thread ---

void SessionTransport::run() {
  while (const ConnectionPtr connection = next_connection()) serve(connection);
  Lock lock(mutex_);
  if (connection_) {
    say_last_words(lock);
    lose_connection("this end is shutting down");
  }
  if (offer_) offer_->connection->shut();
  offer_.reset();
}

// Tells a peer that would wait otherwise. Program threads that are still here find the end closed
// and go; until then the connection is theirs.
void SessionTransport::say_last_words(Lock& lock) {
  if (!io_.wait_until(lock, last_words_until_, [&] { return !working_ && !writing_; })) return;
  const ConnectionPtr connection = connection_;
  if (!connection) return;
  FrameHeader header;
  header.type = session_.may_leave() ? FrameType::kLeave : FrameType::kAbandon;
  header.boundary = boundary_id_;
  header.progress = session_.progress();
  bool whole = !residue_;
  bool said = false;
  const auto in_time = [&] { return std::chrono::steady_clock::now() < last_words_until_; };
  working_ = writing_ = true;
  lock.unlock();
  try {
    do {
      if (whole) {
        said = true;
        whole = connection->write({header, nullptr});
      } else {
        connection->wait(last_words_until_);
        connection->read(frames_);  // else a peer that writes as well might never get to read
        frames_.clear();
        whole = connection->finish_write();
      }
    } while (!(whole && said) && in_time());
    if (in_time()) connection->part(last_words_until_);
  } catch (const Error&) {
    // The connection is gone, and with it whoever could have listened.
  }
  lock.lock();
  working_ = writing_ = false;
  frames_.clear();
}

ConnectionPtr SessionTransport::next_connection() {
  Lock lock(mutex_);
  for (;;) {
    if (stopping_) return nullptr;
    if (offer_) {
      take_over(lock);
      if (connection_) return connection_;
    } else if (failure_ || peer_is_gone() || route_.listener) {
      io_.wait(lock);
    } else {
      try_to_connect(lock);
    }
  }
}

void SessionTransport::try_to_connect(Lock& lock) {
  // The first attempt comes at once, the next ones ever later, up to a limit, none at a fixed beat.
  if (failed_attempts_ > 0) {
    const int doublings = std::min(failed_attempts_ - 1, 20);
    const Nanoseconds pause =
        std::min(options_.retry_longest, options_.retry_first * (std::int64_t{1} << doublings));
    const auto share = 0.5F + 0.5F * jitter_.uniform();
    const auto wait = std::chrono::duration_cast<Nanoseconds>(pause * share);
    if (io_.wait_for(lock, wait, [&] { return stopping_; })) return;
  }
  ++failed_attempts_;
  lock.unlock();
  std::optional<Error> permanent;
  bool stranger = false;
  bool nobody = false;
  std::string reason;
  try {
    const Deadline deadline = deadline_in(options_.handshake_timeout);
    adopt(greet_as_connector(route_.connect(deadline, cancel_), *this, deadline, &cancel_));
  } catch (const Refused& refused) {
    reason = refused.what();
    if (!refused.passing()) permanent = refused;
    nobody = refused.code() == ErrorCode::kNotFound;
  } catch (const Error& error) {
    reason = error.what();
    // Whoever answers there is not one of us, or speaks another version: waiting does not help.
    // Unless we have met before: then it was damage on the way.
    stranger = error.code() == ErrorCode::kInvalidArgument ||
               error.code() == ErrorCode::kUnimplemented ||
               error.code() == ErrorCode::kUnauthenticated;
    if (stranger) permanent = error;
  }
  lock.lock();
  if (!reason.empty() && !offer_) trouble_ = reason;
  if (nobody && session_.peer_ended()) {
    linger_until_ = {};  // the place is there, the peer is not
    room_.notify_all();
  }
  if (permanent && !(stranger && agreement_)) give_up(permanent->code(), permanent->what());
  if (nobody && !agreement_ && ++not_found_ == kNotFoundBeforeWarning) {
    log_warn("transport",
             "{}: another process listens there and has no such boundary: each boundary between "
             "other processes needs a place of its own ({})",
             where(), reason);
  }
}

void SessionTransport::take_over(Lock& lock) {
  const GreetedConnection offer = std::move(*std::exchange(offer_, std::nullopt));
  if (connection_) lose_connection("replaced by a new link");
  if (failure_) {
    offer.connection->shut();
    return;
  }
  try {
    session_.resume(offer.agreement.theirs.progress, offer.agreement.theirs.window,
                    offer.agreement.ours.progress);
  } catch (const Error& error) {
    offer.connection->shut();
    give_up(error.code(), error.what());
    return;
  }
  if (agreement_) ++stats_.reconnects;
  agreement_ = offer.agreement;
  connection_ = offer.connection;
  failed_attempts_ = 0;
  next_look_ = std::chrono::steady_clock::now();
  next_beat_ = next_look_ + options_.heartbeat;
  log_debug("transport", "{}: link up", where());
  forget_delivered();
  room_.notify_all();
  flush(lock);
}

void SessionTransport::serve(const ConnectionPtr& connection) {
  Lock lock(mutex_);
  std::uint64_t works_seen = works_;
  Nanoseconds doze = kDoze;
  while (!stopping_ && !offer_ && connection_ == connection) {
    const bool held_back = connection->holds_back();
    connection->push();
    const bool program_works = std::exchange(works_seen, works_) != works_;
    if (!program_works || held_back) doze = kDoze;
    if (!working_ && !program_works) {
      const bool awaited = waiting_ > 0;
      io_works_ = true;
      work(lock, next_look_);
      io_works_ = false;
      // The program waits for what we read: it may as well read the next one itself.
      if (awaited) ++works_;
      continue;
    }
    deep_sleep_ = working_ && !program_works;
    // A beat that is due is for who works to keep: until he has, this thread must not spin.
    const Deadline until = std::max(
        deep_sleep_ ? next_look_ : std::min(next_look_, deadline_in(doze)), deadline_in(kDoze));
    doze = std::min(2 * doze, kLongestDoze);
    lock.unlock();
    connection->doze(until);
    lock.lock();
    deep_sleep_ = false;
    if (!working_ && connection_ == connection) turn(lock, connection, std::nullopt, false);
  }
}

void SessionTransport::work(Lock& lock, Deadline until) {
  const ConnectionPtr connection = connection_;
  std::optional<Error> broken;
  working_ = true;
  lock.unlock();
  try {
    connection->wait(until);
    connection->read(frames_);
  } catch (const Error& error) {
    broken = error;
  }
  lock.lock();
  working_ = false;
  if (stopping_) io_.notify_all();
  turn(lock, connection, broken, true);
}

void SessionTransport::turn(Lock& lock, const ConnectionPtr& connection,
                            const std::optional<Error>& broken, bool has_read) {
  if (connection_ == connection) {
    try {
      // What came whole before a break still counts.
      for (ReceivedFrame& frame : frames_) take_frame(frame);
    } catch (const Error& error) {
      // The frames were whole, so it is the peer that breaks the rules: a new connection would not
      // help.
      give_up(error.code(), error.what());
    }
    if (!frames_.empty()) {
      forget_delivered();
      room_.notify_all();
      arrived_.notify_all();
    }
  }
  frames_.clear();
  if (connection_ == connection) keep_time(connection, has_read);
  if (connection_ == connection && session_.peer_left()) lose_connection("the peer has closed");
  if (connection_ == connection && broken) connection_broke(*broken);
  flush(lock);
}

void SessionTransport::take_frame(ReceivedFrame& frame) {
  const FrameHeader& header = frame.header;
  if (header.boundary != boundary_id_) {
    fail(ErrorCode::kInvalidArgument, "the peer sent a frame of another boundary");
  }
  session_.peer_progress(header.progress);
  if ((header.flags & kFlagAsk) != 0) session_.peer_asks();
  if ((header.flags & kFlagProbe) != 0) beat_due_ = true;
  switch (header.type) {
    case FrameType::kMessage:
      if (session_.arrive(header.sequence, message_bytes(frame.message)) ==
          Session::Arrival::kRepeated) {
        ++stats_.repeats_dropped;
      } else if (closed_) {
        session_.consume();
      } else {
        inbox_.push_back(std::move(frame.message));
      }
      break;
    case FrameType::kEnd: (void)session_.arrive_end(header.sequence); break;
    case FrameType::kProgress: break;
    case FrameType::kLeave: session_.peer_leaves(); break;
    case FrameType::kAbandon:
      if (!session_.peer_ended()) fail(ErrorCode::kAborted, "the peer went away without closing");
      session_.peer_leaves();
      break;
    default:
      fail(ErrorCode::kDataLoss, "the peer sent a frame of type {} after the greeting",
           static_cast<int>(header.type));
  }
}

// Silence is only what a thread that has just looked does not hear: one that was kept from its work
// must not take its own absence for the other end's.
void SessionTransport::keep_time(const ConnectionPtr& connection, bool has_read) {
  const Deadline now = std::chrono::steady_clock::now();
  if (has_read && route_.silence_limit > Nanoseconds(0) &&
      now - connection->last_heard() > route_.silence_limit) {
    connection_broke(Error(
        ErrorCode::kUnavailable,
        format(
            "no sign of life from {} for {} ms", connection->peer(),
            std::chrono::duration_cast<std::chrono::milliseconds>(route_.silence_limit).count())));
    return;
  }
  if (now < next_look_) return;
  look_for_missing(now);
  if (now >= next_beat_) {
    next_beat_ = now + options_.heartbeat;
    beat_due_ = beat_due_ || !std::exchange(wrote_since_beat_, false) || session_.untold();
  }
  const bool looks = route_.may_reconnect && options_.ask_again > Nanoseconds(0);
  next_look_ =
      looks ? std::min(next_beat_, now + options_.ask_again / kLooksPerAsking) : next_beat_;
}

void SessionTransport::look_for_missing(Deadline now) {
  if (!route_.may_reconnect || options_.ask_again <= Nanoseconds(0)) return;
  const Sequence delivered = session_.peer_delivered();
  if (missing_ && missing_->delivered != delivered && missing_->asked > 0) {
    // What came between two looks took no time that would count.
    const Nanoseconds took = now - missing_->since;
    answer_time_ = took > options_.ask_again ? took : Nanoseconds(0);
  }
  if (!session_.unacknowledged()) {
    missing_.reset();
  } else if (!missing_ || missing_->delivered != delivered || residue_) {
    missing_ = Missing{delivered, now, 0};
  } else if (missing_->asked < kMaxAsked &&
             now - missing_->since >= std::max(options_.ask_again, kAnswerTimes * answer_time_)) {
    probes_due_ = 1 << (2 * missing_->asked);
    missing_->since = now;
    ++missing_->asked;
  }
}

void SessionTransport::connection_broke(const Error& error) {
  // A frame whose checksums are right and that is still too large will be so on every connection;
  // anything else may have happened on the way.
  const bool hopeless = error.code() == ErrorCode::kResourceExhausted;
  if (hopeless) {
    give_up(error.code(), error.what());
  } else {
    lose_connection(error.what());
  }
}

// --- under the mutex ---

void SessionTransport::lose_connection(const std::string& reason) {
  if (!connection_) return;
  const ConnectionCounts counts = connection_->counts();
  past_counts_.socket_payload_sent += counts.socket_payload_sent;
  past_counts_.socket_payload_received += counts.socket_payload_received;
  connection_->shut();
  connection_->wake();
  connection_.reset();
  if (route_.may_reconnect) {
    linger_until_ = deadline_in(kLingerSilences * route_.silence_limit +
                                kLingerRetries * options_.retry_longest);
  }
  session_.cut();
  residue_ = false;
  ask_due_ = false;
  missing_.reset();
  probes_due_ = 0;
  trouble_ = reason;
  io_.notify_all();
  room_.notify_all();
  if (!stopping_) log_debug("transport", "{}: link lost: {}", where(), reason);
  if (!route_.may_reconnect && !session_.peer_ended() && !stopping_) {
    give_up(ErrorCode::kUnavailable, "the peer died: " + reason);
  }
  arrived_.notify_all();
}

// Nothing comes from it any more, and nothing that is sent will be taken.
bool SessionTransport::peer_is_gone() const {
  if (!session_.peer_ended() || connection_ || offer_) return false;
  return session_.peer_left() || std::chrono::steady_clock::now() >= linger_until_;
}

void SessionTransport::give_up(ErrorCode code, const std::string& what) {
  if (failure_) return;
  failure_ = Error(code, format("{}, after message {} received and {} sent: {}", where(),
                                session_.progress().delivered, session_.pushed(), what));
  lose_connection(what);
  arrived_.notify_all();
  room_.notify_all();
  io_.notify_all();
}

void SessionTransport::forget_delivered() {
  const std::size_t keep = session_.pushed() - session_.peer_delivered();
  for (; outbox_.size() > keep; outbox_.pop_front()) {
    if (outbox_.front()) outbox_bytes_ -= outbox_.front()->cost;
  }
}

std::optional<OutgoingFrame> SessionTransport::next_frame() {
  OutgoingFrame frame;
  if (const std::optional<Sequence> sequence = session_.next_to_write()) {
    session_.written(*sequence);
    frame.message = outbox_[*sequence - session_.peer_delivered() - 1];
    if (frame.message) {
      frame.header = frame.message->header;
    } else {
      frame.header.type = FrameType::kEnd;
    }
    frame.header.sequence = *sequence;
  } else if (session_.owes_progress() || beat_due_ || ask_due_ || probes_due_ > 0) {
    frame.header.type = FrameType::kProgress;
  } else {
    return std::nullopt;
  }
  frame.header.flags = std::exchange(ask_due_, false) ? kFlagAsk : std::uint8_t{0};
  if (frame.header.type == FrameType::kProgress && probes_due_ > 0) {
    frame.header.flags |= kFlagProbe;
    --probes_due_;
  }
  frame.header.boundary = boundary_id_;
  frame.header.progress = session_.progress();
  session_.told_progress();
  beat_due_ = false;
  wrote_since_beat_ = true;
  return frame;
}

void SessionTransport::flush(Lock& lock) {
  finish_writing(lock);
  if (writing_) return;  // whoever writes looks again before he stops
  writing_ = true;
  while (connection_ && !residue_) {
    std::optional<OutgoingFrame> frame = next_frame();
    if (!frame) break;
    const ConnectionPtr connection = connection_;
    bool whole = true;
    std::optional<Error> broken;
    lock.unlock();
    try {
      whole = connection->write(std::move(*frame));
    } catch (const Error& error) {
      broken = error;
    }
    lock.lock();
    if (connection != connection_) continue;
    if (broken) {
      lose_connection(broken->what());
    } else if (!whole) {
      residue_ = true;
      if (working_) connection->wake();  // who works has to wait for room as well
    } else if (connection->holds_back()) {
      ++works_;  // so that the I/O thread looks at the connection every now and then
      if (io_works_) connection->wake();
    }
  }
  writing_ = false;
  if (stopping_) io_.notify_all();
}

void SessionTransport::finish_writing(Lock& lock) {
  if (!residue_ || writing_) return;
  writing_ = true;
  const ConnectionPtr connection = connection_;
  bool whole = false;
  std::optional<Error> broken;
  lock.unlock();
  try {
    whole = connection->finish_write();
  } catch (const Error& error) {
    broken = error;
  }
  lock.lock();
  writing_ = false;
  if (connection != connection_) return;
  if (broken) {
    lose_connection(broken->what());
  } else if (whole) {
    residue_ = false;
  }
}

}  // namespace harmonics::inline in_transport
