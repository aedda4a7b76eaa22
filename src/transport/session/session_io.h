// The I/O thread of an end, and its greetings.
//
// While no program thread waits, the I/O thread does the work at the connection, so that bytes move
// while the program computes. It also keeps time (signs of life, silence) and, at the connecting
// end, makes connections anew.
#pragma once

#include <string>
#include <thread>

#include <harmonics/base/random.h>

#include "session_end.h"

namespace harmonics::inline in_transport {

class SessionIo final : private Greeter {
 public:
  /// `end` outlives it. Does nothing until `start`.
  explicit SessionIo(SessionEnd& end);

  /// Registers at the listener, if this end has one, and starts the thread. False when the name is
  /// taken there; then this object is of no use.
  [[nodiscard]] bool start();
  /// Tells the other end by `last_words`, as far as it listens, and ends the thread. Once is
  /// enough.
  void stop(Deadline last_words);

 private:
  using Lock = SessionEnd::Lock;

  // Greeter: on the listener's threads, or on the I/O thread at the connecting end.
  Greeting greeting() override;
  const std::string& token() const override { return end_.options.token; }
  void judge(const Greeting& theirs) override;
  ConnectionPtr make_connection(StreamPtr stream, const Agreement& agreement,
                                Deadline deadline) override;
  void adopt(const GreetedConnection& greeted) override;
  void note_refusal(const std::string& reason) override;

  // The thread.
  void run();
  [[nodiscard]] ConnectionPtr next_connection();
  void try_to_connect(Lock& lock);
  [[nodiscard]] bool pause_before_attempt(Lock& lock);
  void take_over(Lock& lock);
  void serve(const ConnectionPtr& connection);
  void say_last_words(Lock& lock);

  SessionEnd& end_;
  Random jitter_;
  int failed_attempts_ = 0;
  int not_found_ = 0;  // attempts that met a process without this boundary
  Deadline last_words_until_{};
  WakeEvent cancel_;
  std::thread thread_;
};

}  // namespace harmonics::inline in_transport
