// One end of one boundary: sends messages to the other end and receives what that sends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/base/stop.h>
#include <harmonics/transport/binding.h>
#include <harmonics/transport/message.h>

namespace harmonics::inline in_transport {

/// The moment at which a wait gives up.
using Deadline = std::chrono::steady_clock::time_point;
[[nodiscard]] inline Deadline deadline_in(Nanoseconds from_now) {
  return std::chrono::steady_clock::now() + from_now;
}

/// What may be in flight in one direction: sent and not yet taken by the receiving program. The
/// sender holds no more than this, nor does the receiver. A message larger than `bytes` travels
/// alone, so a window never blocks one that max_message_size allows.
struct Window {
  std::uint64_t bytes = std::uint64_t{256} << 20;
  std::uint32_t messages = 1024;
  auto operator<=>(const Window&) const = default;
};
/// The most messages that a window may hold.
inline constexpr std::uint32_t kMaxWindowMessages = 4096;

/// Counters of one end since it was made.
struct TransportStats {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  /// Tensor and attachment bytes, before compression.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  /// Tensor bytes that went through a socket, after compression; repeats after a cut count again.
  std::uint64_t socket_payload_sent = 0;
  std::uint64_t socket_payload_received = 0;
  /// Links after the first one.
  std::uint64_t reconnects = 0;
  /// Messages that came again after a cut and were dropped.
  std::uint64_t repeats_dropped = 0;
  /// The most bytes and messages that this end ever kept for a peer that had not got them.
  std::uint64_t peak_retained_bytes = 0;
  std::uint64_t peak_retained_messages = 0;

  /// Adds up the counters of several ends, peaks too.
  TransportStats& operator+=(const TransportStats& other);
};

/// One end of a boundary. It carries both ways: activations forward, gradients back. Messages
/// arrive in the order sent, each exactly once, whatever happens to the connection between.
///
/// Threads: every member may be called from any thread. Messages of one thread keep their order.
///
/// Failure: a wait that passes its deadline is an Error (kDeadlineExceeded) that names peer,
/// boundary and sequence, one that is asked to stop another (kCancelled); the transport stays
/// usable. What cannot heal (a peer that restarted and
/// lost its state, a refusal, broken frames from a peer that should know better) is an Error of
/// every later call.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Takes the message over and returns; it is kept until the other end has it. Waits while the
  /// window is full, and for the first connection. A tensor above the limit (kResourceExhausted),
  /// an oversized attachment or a tensor that is not on the CPU is refused before anything is sent.
  virtual void send(const Message& message, Deadline deadline) = 0;

  /// The next message; nothing once the other end has closed and all it sent was received.
  [[nodiscard]] virtual std::optional<Message> receive(Deadline deadline) = 0;

  /// Ends this side: waits until the other end has everything that was sent, then lets go. What was
  /// not received yet is dropped. A second close does nothing. Destroying a transport without
  /// closing it abandons the boundary: the other end gets an Error (kAborted).
  virtual void close(Deadline deadline) = 0;

  [[nodiscard]] virtual TransportStats stats() const = 0;

  /// What this end was made from; the port is the real one when a free port was asked for.
  [[nodiscard]] virtual const RemoteBinding& binding() const = 0;
};

using TransportPtr = std::unique_ptr<Transport>;

/// Files and names for TLS; empty files switch it off. Both ends of a boundary must agree, and so
/// must all boundaries that share a listening port.
struct TlsOptions {
  /// PEM files: this end's certificate chain and key (the listening end needs them).
  std::string certificate_file = {};
  std::string key_file = {};
  /// PEM file with the authorities that the other end's certificate is checked against. On the
  /// listening end it makes a client certificate necessary.
  std::string authority_file = {};
  /// The name that the listening end's certificate must carry; the binding's host when empty.
  std::string server_name = {};

  [[nodiscard]] bool enabled() const {
    return !certificate_file.empty() || !authority_file.empty();
  }
  bool operator==(const TlsOptions&) const = default;
};

/// How a transport behaves; the defaults serve.
struct TransportOptions {
  /// Both ends must name the same run.
  std::string run = {};
  /// A secret that both ends must know; proven by challenge, never sent. Empty: none is asked for.
  /// One that is easily guessed (see docs/guides/transports.md) is an Error of make_transport.
  std::string token = {};
  TlsOptions tls = {};
  /// To listen beyond this machine without a token and without asking for certificates is an Error
  /// (kFailedPrecondition); otherwise it is a warning.
  bool needs_secret = false;
  /// What this end lets the other have in flight. Shared memory takes at most 64 messages of it.
  Window window = {};
  /// A sign of life is sent this often; after three silent periods a connection counts as cut.
  Nanoseconds heartbeat = std::chrono::seconds(1);
  /// When an acknowledgement stays out this long, or four times as long as the last took if that is
  /// more (at most twenty times this), it is asked for, a few times over: bytes that were lost are
  /// missed then and not with the next sign of life. Zero: never.
  Nanoseconds ask_again = std::chrono::milliseconds(100);
  /// A connection that has not finished its handshake by then is dropped.
  Nanoseconds handshake_timeout = std::chrono::seconds(5);
  /// The wait between attempts to connect grows from the first to the second, with jitter.
  Nanoseconds retry_first = std::chrono::milliseconds(5);
  Nanoseconds retry_longest = std::chrono::seconds(1);
  /// Once it is asked, waits of the transport end before their deadline, as it says: with an Error
  /// (kCancelled) that names peer and boundary. Null: nobody asks.
  StopRequestPtr stop = nullptr;
};

/// The longest run name and token, in bytes.
inline constexpr std::size_t kMaxRunName = 128;
inline constexpr std::size_t kMaxToken = 1024;

/// Makes one end of the boundary that `binding` names and begins to listen or to connect; never
/// waits for the other end. A wrong binding, an address that cannot be listened on, unreadable TLS
/// files or a transport that was not built (the Error names the build option) throw.
[[nodiscard]] TransportPtr make_transport(const RemoteBinding& binding,
                                          const TransportOptions& options = {});

}  // namespace harmonics::inline in_transport
