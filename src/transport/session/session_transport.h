// The transport of every kind that connects two processes: a session over connections that come and
// go. What programs call is here; the I/O thread's half is session_io.h, and session_end.h is what
// both work on.
#pragma once

#include <optional>
#include <string>

#include "session_io.h"

namespace harmonics::inline in_transport {

class SessionTransport final : public Transport {
 public:
  /// Does nothing until `start`.
  SessionTransport(RemoteBinding binding, TransportOptions options, Route route);
  ~SessionTransport() override;

  void send(const Message& message, Deadline deadline) override;
  std::optional<Message> receive(Deadline deadline) override;
  void close(Deadline deadline) override;
  TransportStats stats() const override;
  const RemoteBinding& binding() const override { return end_.binding; }

  /// Registers at the listener, if this end has one, and starts the I/O thread. False when the name
  /// is taken there; then this object is of no use.
  [[nodiscard]] bool start();

 private:
  using Lock = SessionEnd::Lock;

  // Under the mutex, which those with a lock let go in between.
  /// One wait of the program: until its deadline, or until it is asked to stop.
  struct Wait {
    Deadline deadline;
    std::optional<Deadline> stop_from = {};  // since when it knows that it is asked to
  };
  bool wait_for_change(Lock& lock, std::condition_variable& change, Wait& wait);
  [[nodiscard]] Deadline end_of(Wait& wait) const;
  [[nodiscard]] Codec await_peer(Lock& lock, const Message& message, Wait& wait);
  void await_credit(Lock& lock, std::uint64_t cost, Wait& wait);
  [[nodiscard]] std::optional<Error> await_end(Lock& lock, Deadline deadline);
  void check_usable() const;
  [[noreturn]] void fail_wait(const Wait& wait, const std::string& what) const;
  [[nodiscard]] std::string connection_text() const;

  SessionEnd end_;
  SessionIo io_;
  bool closed_ = false;
  std::optional<StopRequest::Alarm> alarm_;  // last, so that it is gone before what it touches
};

}  // namespace harmonics::inline in_transport
