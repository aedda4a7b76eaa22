#include "pulse.h"

#include <algorithm>

namespace harmonics::inline in_transport {
namespace {

// How often a missing acknowledgement is looked for in the time that it may stay out.
constexpr int kLooksPerAsking = 2;
// So many answer times an acknowledgement may stay out.
constexpr int kAnswerTimes = 4;
// But never more of the time that it may stay out at first: one that took long because its machine
// was busy must not make every later loss cost as long.
constexpr int kMostAskings = 20;
// It is asked for so often, with four times as many frames each time: where bytes were lost, the
// other end waits for as many as are missing before it can see that something is wrong.
constexpr int kMaxAsked = 5;

}  // namespace

void Pulse::start(Deadline now) {
  next_look_ = now;
  next_beat_ = now + heartbeat_;
}

Pulse::Due Pulse::look(Deadline now, const Session& session, bool unfinished) {
  Due due;
  if (now < next_look_) return due;
  due.probes = probes_at(now, session, unfinished);
  if (now >= next_beat_) {
    next_beat_ = now + heartbeat_;
    due.beat = true;
  }
  next_look_ = ask_again_ > Nanoseconds(0)
                   ? std::min(next_beat_, now + ask_again_ / kLooksPerAsking)
                   : next_beat_;
  return due;
}

int Pulse::probes_at(Deadline now, const Session& session, bool unfinished) {
  if (ask_again_ <= Nanoseconds(0)) return 0;
  const Sequence delivered = session.peer_delivered();
  if (missing_ && missing_->delivered != delivered && missing_->asked > 0) {
    // What came between two looks took no time that would count.
    const Nanoseconds took = now - missing_->since;
    answer_time_ = took > ask_again_ ? took : Nanoseconds(0);
  }
  if (!session.unacknowledged()) {
    missing_.reset();
  } else if (!missing_ || missing_->delivered != delivered || unfinished) {
    missing_ = Missing{delivered, now, 0};
  } else if (missing_->asked < kMaxAsked &&
             now - missing_->since >=
                 std::clamp(kAnswerTimes * answer_time_, ask_again_, kMostAskings * ask_again_)) {
    missing_->since = now;
    return 1 << (2 * missing_->asked++);
  }
  return 0;
}

}  // namespace harmonics::inline in_transport
