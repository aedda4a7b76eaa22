// The bookkeeping of one end of a boundary: sequence, acknowledgement, resume, credits, end.
//
// A pure state machine: no thread, no clock, no socket, no tensor. A transport tells it what
// happened and asks it what may be sent; everything that makes delivery exactly-once and bounded is
// decided here. Not thread safe.
//
// Each direction numbers its messages 1, 2, 3, … . The receiver reports two cumulative numbers:
// `delivered` (all up to it have arrived, so the sender may forget them) and `consumed` (the
// program has taken them, so their credits are free again). consumed <= delivered <= pushed.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <optional>

#include <harmonics/base/bytes.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

using Sequence = std::uint64_t;

/// How far a receiver is.
struct Progress {
  Sequence delivered = 0;
  Sequence consumed = 0;
  auto operator<=>(const Progress&) const = default;
};

class Session {
 public:
  /// `granted` is what the other end may have in flight towards us.
  explicit Session(const Window& granted) : granted_(granted) {}

  // --- what we send ---

  /// Whether credits are left for a message of that many bytes. Nothing may be sent before the
  /// first `resume`, which brings the other end's window.
  [[nodiscard]] bool may_push(std::uint64_t bytes) const;
  /// Gives the next message its number. Only when may_push said so.
  Sequence push(std::uint64_t bytes);
  /// The end of what we send takes a number too, so that it survives cuts, but no credit. Nothing
  /// is pushed after it.
  Sequence push_end();

  /// The next message to put on the connection, or nothing when all are written or there is no
  /// connection.
  [[nodiscard]] std::optional<Sequence> next_to_write() const;
  /// `sequence` goes onto the connection now, before its first byte does. It must be what
  /// next_to_write said.
  void written(Sequence sequence);

  /// The other end reports its progress. One that goes back is old news and changes nothing; one
  /// beyond what we wrote, or that consumes more than it has, is an Error (kDataLoss).
  void peer_progress(const Progress& progress);

  /// Whether a message of that many bytes finds no room although so little is in flight that the
  /// other end may keep its progress to itself: then it must be asked for it, once per answer.
  [[nodiscard]] bool must_ask(std::uint64_t bytes) const;
  /// The other end is being asked for its progress now.
  void asked() { asked_ = true; }

  /// Whether something that was put onto the connection has not been acknowledged.
  [[nodiscard]] bool unacknowledged() const { return linked_ && written_ > peer_.delivered; }

  [[nodiscard]] Sequence pushed() const { return pushed_; }
  /// Messages up to this one have arrived at the other end: they need not be kept any more.
  [[nodiscard]] Sequence peer_delivered() const { return peer_.delivered; }
  [[nodiscard]] std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  [[nodiscard]] std::size_t in_flight_messages() const { return in_flight_.size(); }

  // --- what we receive ---

  enum class Arrival { kNew, kRepeated };
  /// A message came in. One that was delivered before is a repeat, to be dropped. A gap, a breach
  /// of the credits or a message after the end is an Error (kDataLoss).
  Arrival arrive(Sequence sequence, std::uint64_t bytes);
  /// The other end's end came in: nothing follows.
  Arrival arrive_end(Sequence sequence);
  /// The program took the oldest message that was delivered and not yet consumed.
  void consume();

  [[nodiscard]] Progress progress() const { return received_; }
  [[nodiscard]] bool peer_ended() const { return end_received_ != 0; }
  /// Whether the other end has all that we sent, our end included: then we may say that we leave,
  /// and go.
  [[nodiscard]] bool may_leave() const {
    return end_pushed_ != 0 && peer_.delivered >= end_pushed_;
  }
  /// The other end says that it leaves: it knows that we have all it sent, and a connection to it
  /// serves nobody any more. Before its end that is an Error (kDataLoss).
  void peer_leaves();
  /// False when an end whose connection is cut after the other one's end cannot know: the other one
  /// may still wait to hear that everything arrived.
  [[nodiscard]] bool peer_left() const { return peer_left_; }
  [[nodiscard]] std::uint64_t backlog_bytes() const { return backlog_bytes_; }
  /// The other end asks for our progress: the next message consumed is reported at once.
  void peer_asks() { peer_asks_ = true; }
  /// Whether the other end should hear of our progress now rather than with the next message or
  /// sign of life: a quarter of the window was consumed, it asked, or its end arrived.
  [[nodiscard]] bool owes_progress() const;
  /// Whether the other end has not heard of all our progress.
  [[nodiscard]] bool untold() const { return received_ != told_; }
  /// The other end is being told `progress()` now.
  void told_progress();

  // --- the connection ---

  [[nodiscard]] const Window& granted() const { return granted_; }
  [[nodiscard]] bool linked() const { return linked_; }
  /// A connection is up, on which the other end said how far it is and what it grants, and we said
  /// `told`, our progress of a moment ago. Writing goes on after what the other end has. Progress
  /// that cannot be (beyond what was pushed, or short of what it acknowledged before) is an Error
  /// (kDataLoss): the other end is not who it was.
  void resume(const Progress& peer, const Window& peer_window, const Progress& told);
  /// The connection is gone; what was on it may or may not have arrived.
  void cut();

  /// Everything that decides how the session will behave, as bytes: two sessions with the same
  /// bytes behave the same. For tests that explore states.
  void write_state(ByteWriter& out) const;

 private:
  Window granted_;
  bool linked_ = false;

  Window peer_window_{0, 0};
  Sequence pushed_ = 0;
  Sequence written_ = 0;  // on this connection; at least peer_.delivered
  Sequence highest_written_ = 0;
  Sequence end_pushed_ = 0;
  Progress peer_;
  bool asked_ = false;
  std::deque<std::uint64_t> in_flight_;  // sizes of peer_.consumed + 1 .. pushed_
  std::uint64_t in_flight_bytes_ = 0;

  Progress received_;
  Progress told_;
  std::uint64_t consumed_since_told_ = 0;  // bytes
  bool peer_asks_ = false;
  Sequence end_received_ = 0;
  bool peer_left_ = false;
  std::deque<std::uint64_t> backlog_;  // sizes of consumed + 1 .. delivered
  std::uint64_t backlog_bytes_ = 0;
};

/// Whether a window that holds `messages` of `bytes` in all has room for one of `more` bytes.
[[nodiscard]] bool window_has_room(const Window& window, std::size_t messages, std::uint64_t bytes,
                                   std::uint64_t more);

}  // namespace harmonics::inline in_transport
