// One end of a boundary as all its threads share it: what is under way, the connection and who is
// at it, the other end.
//
// Whoever waits does the work: a thread that waits for a message or for room reads from the
// connection himself and writes what is unfinished, so that a quick exchange wakes no other thread.
// All state is behind one mutex, which nobody holds while bytes move: the functions here are called
// with it held, and those that take its lock let go of it in between.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "acquaintance.h"
#include "delivery.h"
#include "pulse.h"
#include "route.h"
#include "workplace.h"

namespace harmonics::inline in_transport {

struct SessionEnd {
  using Lock = Workplace::Lock;

  SessionEnd(RemoteBinding its_binding, TransportOptions its_options, Route its_route);

  /// One turn of work: waits at the connection until `until`, then deals with what came. Only when
  /// there is a connection and nobody works.
  void work(Lock& lock, Deadline until);
  /// Deals with what a turn of work has read, with the time, and with what is to be written.
  /// `has_read`: the turn has just looked, so what it did not hear is silence.
  void settle(Lock& lock, const Workplace::Work& done, bool has_read);
  /// Writes what there is to write.
  void flush(Lock& lock);
  void lose_connection(const std::string& reason);
  /// The boundary is of no use any more: every call fails with this from now on.
  void give_up(ErrorCode code, const std::string& what);
  /// Nothing comes from the other end any more, and nothing that is sent will be taken.
  [[nodiscard]] bool peer_is_gone() const;
  /// The boundary, for messages.
  [[nodiscard]] std::string where() const;
  void notify_program();

  const RemoteBinding binding;
  const TransportOptions options;
  const Route route;

  mutable std::mutex mutex;
  std::condition_variable arrived;  // for receivers
  std::condition_variable room;     // for senders and close
  std::condition_variable io;       // for the I/O thread without a connection

  Delivery delivery;
  Pulse pulse;
  Acquaintance acquaintance;
  Workplace workplace;

  std::optional<Error> failure;
  std::string trouble = "no connection yet";  // why there is no connection
  std::uint64_t reconnects = 0;
  bool stopping = false;
  /// Without a connection after the peer's end: when the peer counts as gone.
  Deadline linger_until{};

 private:
  void take_frames();
  void keep_time(const Connection& connection, bool has_read);
  void connection_broke(const Error& error);
};

}  // namespace harmonics::inline in_transport
