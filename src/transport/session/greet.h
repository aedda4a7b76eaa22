// Greeting over a stream: from a fresh connection to two ends that have agreed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <harmonics/base/error.h>

#include "connection.h"
#include "handshake.h"
#include "stream.h"

namespace harmonics::inline in_transport {

/// A refusal, by the other end or by us. A passing one is worth another attempt.
class Refused : public Error {
 public:
  Refused(ErrorCode code, const std::string& reason, bool passing)
      : Error(code, reason), passing_(passing) {}
  [[nodiscard]] bool passing() const { return passing_; }

 private:
  bool passing_;
};

/// What two ends have agreed on.
struct Agreement {
  Greeting ours;
  Greeting theirs;
  /// Whether we were the listening end.
  bool listening = false;

  [[nodiscard]] Codec codec() const {
    return ours.compress || theirs.compress ? Codec::kZstdPlanes : Codec::kNone;
  }
  [[nodiscard]] std::uint64_t max_message_size() const {
    return agreed_message_size(ours.max_message_size, theirs.max_message_size);
  }
};

/// Turns a greeted stream into a connection; runs on the thread that greeted, within its deadline.
using ConnectionMaker = std::function<ConnectionPtr(StreamPtr, const Agreement&, Deadline)>;

/// A greeted connection and what was agreed on it; the greeter has not adopted it yet.
struct GreetedConnection {
  ConnectionPtr connection;
  Agreement agreement;
};

/// The end that a greeting speaks for. Thread safe.
class Greeter {
 public:
  virtual ~Greeter() = default;
  /// What this end says about itself now.
  [[nodiscard]] virtual Greeting greeting() = 0;
  [[nodiscard]] virtual const std::string& token() const = 0;
  /// Throws Refused when `theirs` cannot be this end's partner.
  virtual void judge(const Greeting& theirs) = 0;
  [[nodiscard]] virtual ConnectionPtr make_connection(StreamPtr stream, const Agreement& agreement,
                                                      Deadline deadline) = 0;
  /// The connection is this end's from now on.
  virtual void adopt(const GreetedConnection& greeted) = 0;
  /// Someone knocked and was sent away; for the error of whoever waits.
  virtual void note_refusal(const std::string& reason) = 0;
};

/// The connecting end's part. Refused if one end refused, other Errors if it came to nothing.
[[nodiscard]] GreetedConnection greet_as_connector(StreamPtr stream, Greeter& greeter,
                                                   Deadline deadline, const WakeEvent* cancel);

/// The first frame of a connection, which must be a hello. A visitor of another version is told.
[[nodiscard]] Greeting read_hello(Stream& stream, Deadline deadline);
/// Lets the visitor prove the token; one that cannot is Refused.
void challenge_peer(Stream& stream, const Greeting& hello, const std::string& token,
                    Deadline deadline);
/// The listening end's part after the hello; a refusal is sent and thrown.
[[nodiscard]] GreetedConnection greet_as_listener(StreamPtr stream, const Greeting& hello,
                                                  Greeter& greeter, Deadline deadline);

/// Sends a refusal; a peer that does not take it is its own loss.
void send_refusal(Stream& stream, const Refused& refused, Deadline deadline);

}  // namespace harmonics::inline in_transport
