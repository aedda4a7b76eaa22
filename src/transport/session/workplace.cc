#include "workplace.h"

#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {

void Workplace::close() {
  past_counts_ = counts();
  connection_->shut();
  connection_->wake();
  connection_.reset();
  unfinished_ = false;
}

void Workplace::wake() const {
  if (connection_) connection_->wake();
}

ConnectionCounts Workplace::counts() const {
  ConnectionCounts out = connection_ ? connection_->counts() : ConnectionCounts{};
  out.socket_payload_sent += past_counts_.socket_payload_sent;
  out.socket_payload_received += past_counts_.socket_payload_received;
  return out;
}

Workplace::Work Workplace::work(Lock& lock, Deadline until) {
  Work done{connection_, std::nullopt};
  working_ = true;
  lock.unlock();
  try {
    done.connection->wait(until);
    done.connection->read(frames_);
  } catch (const Error& error) {
    done.broken = error;
  }
  lock.lock();
  working_ = false;
  return done;
}

// A break of a connection that is no longer ours is no news.
std::optional<Error> Workplace::flush(Lock& lock, Delivery& delivery) {
  if (writing_) return std::nullopt;
  std::optional<Error> broken;
  writing_ = true;
  while (connection_ && !broken) {
    std::optional<OutgoingFrame> frame;
    if (!unfinished_ && !(frame = delivery.next_frame())) break;
    const ConnectionPtr connection = connection_;
    bool whole = false;
    std::optional<Error> caught;
    lock.unlock();
    try {
      whole = frame ? connection->write(std::move(*frame)) : connection->finish_write();
    } catch (const Error& error) {
      caught = error;
    }
    lock.lock();
    if (connection != connection_) continue;
    broken = std::move(caught);
    if (broken) break;
    if (!written(whole, frame.has_value())) break;
  }
  writing_ = false;
  return broken;
}

// Whether there may be room for more.
bool Workplace::written(bool whole, bool new_frame) {
  const bool was_unfinished = std::exchange(unfinished_, !whole);
  if (!whole) {
    // Who works has to wait for room as well.
    if (!was_unfinished && working_) connection_->wake();
  } else if (new_frame && connection_->holds_back()) {
    ++turns.works;  // so that the I/O thread looks at the connection every now and then
    if (turns.io_works) connection_->wake();
  }
  return whole;
}

void Workplace::say_last(Lock& lock, const FrameHeader& words, Deadline until) {
  const ConnectionPtr connection = connection_;
  bool whole = !unfinished_;
  bool said = false;
  const auto in_time = [&] { return std::chrono::steady_clock::now() < until; };
  working_ = writing_ = true;
  lock.unlock();
  try {
    do {
      if (whole) {
        said = true;
        whole = connection->write({words, nullptr});
      } else {
        connection->wait(until);
        connection->read(frames_);  // else a peer that writes as well might never get to read
        frames_.clear();
        whole = connection->finish_write();
      }
    } while (!(whole && said) && in_time());
    if (in_time()) connection->part(until);
  } catch (const Error&) {
    // The connection is gone, and with it whoever could have listened.
  }
  lock.lock();
  working_ = writing_ = false;
  frames_.clear();
}

}  // namespace harmonics::inline in_transport
