// The connection of an end and who is at it: one thread at a time reads, one at a time writes.
//
// Everything here is behind the mutex of the end. Calls that take its lock let go of it while bytes
// move, so that state may have changed when they return.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "connection.h"
#include "delivery.h"

namespace harmonics::inline in_transport {

/// How program threads and the I/O thread take turns.
struct Turns {
  std::uint64_t works = 0;  // by program threads, so far
  int waiting = 0;          // program threads that wait for another one's work
  bool io_works = false;    // whoever reads is the I/O thread
  bool deep_sleep = false;  // the I/O thread relies on a program thread's work
};

class Workplace {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// Null when there is none.
  [[nodiscard]] const ConnectionPtr& connection() const { return connection_; }
  void open(ConnectionPtr connection) { connection_ = std::move(connection); }
  /// Ends the connection: whoever is at it comes back soon.
  void close();
  void wake() const;
  /// Of this connection and those that are gone.
  [[nodiscard]] ConnectionCounts counts() const;

  /// Whether some thread waits at the connection and reads from it.
  [[nodiscard]] bool working() const { return working_; }
  /// Whether no thread is at it.
  [[nodiscard]] bool empty() const { return !working_ && !writing_; }
  /// Whether the connection has not taken all that was written.
  [[nodiscard]] bool unfinished() const { return unfinished_; }

  /// One turn at the connection that was there when it began.
  struct Work {
    ConnectionPtr connection;
    std::optional<Error> broken;
  };
  /// Waits until `until`, or until there is something, and reads into `frames`. Only when there is
  /// a connection and nobody works.
  [[nodiscard]] Work work(Lock& lock, Deadline until);
  /// What the last work has read.
  [[nodiscard]] std::vector<ReceivedFrame>& frames() { return frames_; }

  /// Writes what `delivery` has, as far as there is room. Where another thread writes, that one
  /// looks again before it stops. What broke the connection, if something did.
  [[nodiscard]] std::optional<Error> flush(Lock& lock, Delivery& delivery);

  /// Tells the other end by `until`, as far as it listens. Only when nobody is here.
  void say_last(Lock& lock, const FrameHeader& words, Deadline until);

  Turns turns;

 private:
  [[nodiscard]] bool written(bool whole, bool new_frame);

  ConnectionPtr connection_;
  bool unfinished_ = false;
  bool writing_ = false;
  bool working_ = false;
  std::vector<ReceivedFrame> frames_;
  ConnectionCounts past_counts_;  // of connections that are gone
};

}  // namespace harmonics::inline in_transport
