#include "session.h"

#include <algorithm>

#include <harmonics/base/check.h>
#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {

bool window_has_room(const Window& window, std::size_t messages, std::uint64_t bytes,
                     std::uint64_t more) {
  if (window.messages == 0) return false;
  if (messages == 0) return true;
  return messages < window.messages && bytes <= window.bytes && more <= window.bytes - bytes;
}

namespace {

// What a receiver may consume without a word. Both ends reckon with it.
bool is_small_share(const Window& window, std::uint64_t messages, std::uint64_t bytes) {
  return messages < std::max<std::uint64_t>(1, window.messages / 4) &&
         bytes < std::max<std::uint64_t>(1, window.bytes / 4);
}

}  // namespace

bool Session::may_push(std::uint64_t bytes) const {
  return end_pushed_ == 0 &&
         window_has_room(peer_window_, in_flight_.size(), in_flight_bytes_, bytes);
}

Sequence Session::push(std::uint64_t bytes) {
  HARMONICS_CHECK(may_push(bytes), "a message was pushed without credit");
  in_flight_.push_back(bytes);
  in_flight_bytes_ += bytes;
  return ++pushed_;
}

Sequence Session::push_end() {
  if (end_pushed_ == 0) end_pushed_ = ++pushed_;
  return end_pushed_;
}

std::optional<Sequence> Session::next_to_write() const {
  if (!linked_ || written_ >= pushed_) return std::nullopt;
  return written_ + 1;
}

void Session::written(Sequence sequence) {
  HARMONICS_CHECK(linked_ && sequence == written_ + 1 && sequence <= pushed_,
                  "message {} was written out of turn", sequence);
  written_ = sequence;
  highest_written_ = std::max(highest_written_, sequence);
}

void Session::peer_progress(const Progress& progress) {
  if (progress.delivered > highest_written_ || progress.consumed > progress.delivered) {
    fail(ErrorCode::kDataLoss,
         "the peer acknowledges message {} and {} as taken, but only {} were sent",
         progress.delivered, progress.consumed, highest_written_);
  }
  peer_.delivered = std::max(peer_.delivered, progress.delivered);
  written_ = std::max(written_, peer_.delivered);
  for (; peer_.consumed < progress.consumed; ++peer_.consumed) {
    asked_ = false;
    if (in_flight_.empty()) continue;  // the end: it holds no credit
    HARMONICS_CHECK(in_flight_bytes_ >= in_flight_.front(),
                    "{} bytes are under way, the first message has {}", in_flight_bytes_,
                    in_flight_.front());
    in_flight_bytes_ -= in_flight_.front();
    in_flight_.pop_front();
  }
}

bool Session::must_ask(std::uint64_t bytes) const {
  return linked_ && !asked_ && end_pushed_ == 0 && !may_push(bytes) &&
         is_small_share(peer_window_, in_flight_.size(), in_flight_bytes_);
}

Session::Arrival Session::arrive(Sequence sequence, std::uint64_t bytes) {
  if (sequence <= received_.delivered) return Arrival::kRepeated;
  if (sequence != received_.delivered + 1 || end_received_ != 0) {
    fail(ErrorCode::kDataLoss, "message {} came where {} was expected", sequence,
         received_.delivered + 1);
  }
  if (!window_has_room(granted_, backlog_.size(), backlog_bytes_, bytes)) {
    fail(ErrorCode::kDataLoss,
         "message {} of {} bytes breaks the credits: {} messages of {} bytes wait already",
         sequence, bytes, backlog_.size(), backlog_bytes_);
  }
  received_.delivered = sequence;
  backlog_.push_back(bytes);
  backlog_bytes_ += bytes;
  return Arrival::kNew;
}

Session::Arrival Session::arrive_end(Sequence sequence) {
  if (sequence <= received_.delivered) return Arrival::kRepeated;
  if (sequence != received_.delivered + 1 || end_received_ != 0) {
    fail(ErrorCode::kDataLoss, "the end came as {} where {} was expected", sequence,
         received_.delivered + 1);
  }
  received_.delivered = sequence;
  end_received_ = sequence;
  if (backlog_.empty()) received_.consumed = sequence;
  return Arrival::kNew;
}

void Session::peer_leaves() {
  if (end_received_ == 0) fail(ErrorCode::kDataLoss, "the peer leaves before its end");
  peer_left_ = true;
}

void Session::consume() {
  HARMONICS_CHECK(!backlog_.empty(), "a message was consumed that never arrived");
  HARMONICS_CHECK(backlog_bytes_ >= backlog_.front(), "{} bytes wait, the first message has {}",
                  backlog_bytes_, backlog_.front());
  consumed_since_told_ += backlog_.front();
  backlog_bytes_ -= backlog_.front();
  backlog_.pop_front();
  ++received_.consumed;
  HARMONICS_CHECK(received_.consumed <= received_.delivered, "{} messages are taken of {}",
                  received_.consumed, received_.delivered);
  if (backlog_.empty() && end_received_ != 0) received_.consumed = end_received_;
}

bool Session::owes_progress() const {
  if (received_ == told_) return false;
  if (end_received_ != 0) return true;
  const std::uint64_t messages = received_.consumed - told_.consumed;
  return (peer_asks_ && messages > 0) || !is_small_share(granted_, messages, consumed_since_told_);
}

void Session::told_progress() {
  peer_asks_ = peer_asks_ && received_.consumed == told_.consumed;
  HARMONICS_CHECK(told_.delivered <= received_.delivered && told_.consumed <= received_.consumed,
                  "the peer was told of {} messages, {} came", told_.delivered,
                  received_.delivered);
  told_ = received_;
  consumed_since_told_ = 0;
}

void Session::resume(const Progress& peer, const Window& peer_window, const Progress& told) {
  if (peer.delivered < peer_.delivered || peer.consumed < peer_.consumed) {
    fail(ErrorCode::kDataLoss,
         "the peer has {} messages, but had acknowledged {}: it lost its state", peer.delivered,
         peer_.delivered);
  }
  peer_progress(peer);
  peer_window_ = peer_window;
  written_ = peer_.delivered;
  HARMONICS_CHECK(written_ <= pushed_, "{} messages are written of {}", written_, pushed_);
  linked_ = true;
  // What was told on the old connection since the greeting may be lost with it: tell it again.
  told_ = told;
  consumed_since_told_ = told.consumed == received_.consumed ? 0 : granted_.bytes;
}

void Session::cut() {
  linked_ = false;
  asked_ = false;
  peer_asks_ = false;
}

void Session::write_state(ByteWriter& out) const {
  for (const bool flag : {linked_, asked_, peer_asks_, peer_left_}) out.number(flag);
  for (const std::uint64_t number :
       {granted_.bytes, std::uint64_t{granted_.messages}, peer_window_.bytes,
        std::uint64_t{peer_window_.messages}, pushed_, written_, highest_written_, end_pushed_,
        peer_.delivered, peer_.consumed, received_.delivered, received_.consumed, told_.delivered,
        told_.consumed, consumed_since_told_, end_received_}) {
    out.number(number);
  }
  for (const auto* sizes : {&in_flight_, &backlog_}) {
    out.number(std::uint64_t{sizes->size()});
    for (const std::uint64_t size : *sizes) out.number(size);
  }
}

}  // namespace harmonics::inline in_transport
