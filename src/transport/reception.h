// Where those who connect are greeted: boundaries share an address and are told apart by name.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "log_limit.h"
#include "session/greet.h"

namespace harmonics::inline in_transport {

/// The most connections that may be in the middle of their greeting at one address. For one more
/// the oldest is turned away: of those that have said nothing yet if there are any, of the host
/// that has most of them here.
inline constexpr std::size_t kMaxGreetings = 16;
/// How long a visitor is left in peace however many wait: one that has said nothing, and one whose
/// hello was read. So many can be turned away a second that a crowd costs little, and so few that
/// an honest peer is through before its turn comes.
inline constexpr Nanoseconds kSilentGrace = std::chrono::milliseconds(100);
inline constexpr Nanoseconds kSpokenGrace = std::chrono::milliseconds(500);

/// A fresh connection.
struct Visitor {
  /// Its address, for logs.
  std::string peer;
  /// Makes the stream, within the deadline; called once, on the thread that greets.
  std::function<StreamPtr(Deadline)> open;
  /// Ends the connection from any thread: whoever reads or writes gets an Error soon.
  std::function<void()> hang_up;
};

/// Greets each visitor on a thread of its own, so that a silent stranger holds up nobody, and hands
/// the connection to the boundary that was asked for. What strangers can make it log is bounded.
/// Where boundaries have a token, whoever cannot prove it learns nothing, not even which names
/// there are. Thread safe.
class Reception {
 public:
  /// `place` names the address in logs and refusals.
  Reception(std::string place, Nanoseconds handshake_timeout);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  /// False when a boundary of that name is there already.
  [[nodiscard]] bool add(const std::string& boundary, Greeter& greeter);
  /// Returns when no greeting uses the greeter any more.
  void remove(const std::string& boundary);

  /// Waits for room, no longer than the graces above. False once closed; then nothing of the
  /// visitor was called.
  bool admit(Visitor visitor);
  /// Ends all greetings and admits nobody any more.
  void close();

 private:
  struct Visit;

  using Lock = std::unique_lock<std::mutex>;
  using Visits = std::vector<std::unique_ptr<Visit>>;

  void greet(Visit& visit);
  void greet_stream(Visit& visit);
  [[noreturn]] void refuse_unknown(Stream& stream, const Greeting& hello, Deadline deadline);
  void make_room(Lock& lock);
  [[nodiscard]] Visit* next_to_go() const;
  [[nodiscard]] std::size_t crowd_of(const std::string& host) const;
  [[nodiscard]] Visits take_done();
  void warn(const std::string& text);
  static void join(const Visits& visits);

  const std::string place_;
  const Nanoseconds handshake_timeout_;
  const Deadline opened_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::condition_variable left_;
  bool closed_ = false;
  std::map<std::string, Greeter*> boundaries_;
  Visits visits_;  // the oldest first
  LogLimit log_limit_;
};

}  // namespace harmonics::inline in_transport
