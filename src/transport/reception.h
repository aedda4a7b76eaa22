// Where those who connect are greeted: boundaries share an address and are told apart by name.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "greet.h"

namespace harmonics {

/// The most connections that may be in the middle of their greeting at one address; more are
/// turned away at once.
inline constexpr std::size_t kMaxGreetings = 16;

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
/// the link to the boundary that was asked for. Thread safe.
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

  /// False when it was turned away, which the log says; then nothing of it was called.
  bool admit(Visitor visitor);
  /// Ends all greetings and admits nobody any more.
  void close();

 private:
  struct Visit;

  void greet(Visit& visit);
  void greet_stream(Visit& visit);
  void reap();

  const std::string place_;
  const Nanoseconds handshake_timeout_;

  std::mutex mutex_;
  std::condition_variable left_;
  bool closed_ = false;
  std::map<std::string, Greeter*> boundaries_;
  std::vector<std::unique_ptr<Visit>> visits_;
};

}  // namespace harmonics
