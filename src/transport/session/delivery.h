// What is under way at one end: messages that are kept until the other end has them, those that
// have come and wait for the program, and the frame that goes out next.
//
// The session decides, this keeps the messages. No thread, no clock, no connection. Not thread
// safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "connection.h"
#include "session.h"

namespace harmonics::inline in_transport {

class Delivery {
 public:
  /// `boundary` is the number that every frame carries, `granted` what the other end may have in
  /// flight towards us.
  Delivery(std::uint32_t boundary, const Window& granted)
      : boundary_(boundary), session_(granted) {}

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] const Session& session() const { return session_; }

  // --- the program's side ---

  /// Keeps the message until the other end has it. Only when the session has room for its cost.
  void push(std::shared_ptr<const OutgoingMessage> message);
  /// Nothing is pushed after it.
  Sequence push_end();
  [[nodiscard]] bool has_message() const { return !inbox_.empty(); }
  /// The oldest message that came. Only when there is one.
  [[nodiscard]] Message take();
  /// The program takes no more: what waits and what still comes counts as taken.
  void stop_taking();

  // --- the connection's side ---

  /// A frame came. One that breaks the rules is an Error: another connection would not help.
  void arrive(ReceivedFrame& frame);
  /// Lets go of what the other end has.
  void forget_delivered();
  /// What to write now, if anything; it counts as written.
  [[nodiscard]] std::optional<OutgoingFrame> next_frame();
  /// What an end that goes says to the other one.
  [[nodiscard]] FrameHeader last_words() const;

  // --- what is due besides messages ---

  /// The other end is asked for its progress.
  void ask();
  /// Time for a sign of life, unless something was written since the last one and there is no news.
  void beat();
  /// An acknowledgement is asked for with so many frames.
  void probe(int frames) { probes_due_ = frames; }
  /// The connection is gone.
  void cut();

  /// The part of the statistics that is counted here.
  [[nodiscard]] const TransportStats& stats() const { return stats_; }

 private:
  const std::uint32_t boundary_;
  Session session_;
  std::deque<std::shared_ptr<const OutgoingMessage>> outbox_;  // null: the end
  std::uint64_t outbox_bytes_ = 0;
  std::deque<Message> inbox_;
  bool taking_ = true;
  bool ask_due_ = false;
  bool beat_due_ = false;
  bool wrote_since_beat_ = false;
  int probes_due_ = 0;
  TransportStats stats_;
};

}  // namespace harmonics::inline in_transport
