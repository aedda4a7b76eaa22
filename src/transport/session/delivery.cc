#include "delivery.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_transport {

void Delivery::push(std::shared_ptr<const OutgoingMessage> message) {
  (void)session_.push(message->cost);
  ++stats_.messages_sent;
  stats_.bytes_sent += message->cost;
  outbox_bytes_ += message->cost;
  outbox_.push_back(std::move(message));
  stats_.peak_retained_bytes = std::max(stats_.peak_retained_bytes, outbox_bytes_);
  stats_.peak_retained_messages =
      std::max<std::uint64_t>(stats_.peak_retained_messages, outbox_.size());
}

Sequence Delivery::push_end() {
  const Sequence end = session_.push_end();
  outbox_.push_back(nullptr);
  return end;
}

Message Delivery::take() {
  Message message = std::move(inbox_.front());
  inbox_.pop_front();
  session_.consume();
  ++stats_.messages_received;
  stats_.bytes_received += message_bytes(message);
  return message;
}

void Delivery::stop_taking() {
  taking_ = false;
  for (; !inbox_.empty(); inbox_.pop_front()) session_.consume();
}

void Delivery::arrive(ReceivedFrame& frame) {
  const FrameHeader& header = frame.header;
  if (header.boundary != boundary_) {
    fail(ErrorCode::kInvalidArgument, "the peer sent a frame of another boundary");
  }
  session_.peer_progress(header.progress);
  if ((header.flags & kFlagAsk) != 0) session_.peer_asks();
  if ((header.flags & kFlagProbe) != 0) beat_due_ = true;
  switch (header.type) {
    case FrameType::kMessage:
      if (session_.arrive(header.sequence, message_bytes(frame.message)) ==
          Session::Arrival::kRepeated) {
        ++stats_.repeats_dropped;
      } else if (!taking_) {
        session_.consume();
      } else {
        inbox_.push_back(std::move(frame.message));
      }
      break;
    case FrameType::kEnd: (void)session_.arrive_end(header.sequence); break;
    case FrameType::kProgress: break;
    case FrameType::kLeave: session_.peer_leaves(); break;
    case FrameType::kAbandon:
      if (!session_.peer_ended()) fail(ErrorCode::kAborted, "the peer went away without closing");
      session_.peer_leaves();
      break;
    default:
      fail(ErrorCode::kDataLoss, "the peer sent a frame of type {} after the greeting",
           static_cast<int>(header.type));
  }
}

void Delivery::forget_delivered() {
  const std::size_t keep = session_.pushed() - session_.peer_delivered();
  for (; outbox_.size() > keep; outbox_.pop_front()) {
    if (outbox_.front()) outbox_bytes_ -= outbox_.front()->cost;
  }
}

std::optional<OutgoingFrame> Delivery::next_frame() {
  OutgoingFrame frame;
  if (const std::optional<Sequence> sequence = session_.next_to_write()) {
    session_.written(*sequence);
    frame.message = outbox_[*sequence - session_.peer_delivered() - 1];
    if (frame.message) {
      frame.header = frame.message->header;
    } else {
      frame.header.type = FrameType::kEnd;
    }
    frame.header.sequence = *sequence;
  } else if (session_.owes_progress() || beat_due_ || ask_due_ || probes_due_ > 0) {
    frame.header.type = FrameType::kProgress;
  } else {
    return std::nullopt;
  }
  frame.header.flags = std::exchange(ask_due_, false) ? kFlagAsk : std::uint8_t{0};
  if (frame.header.type == FrameType::kProgress && probes_due_ > 0) {
    frame.header.flags |= kFlagProbe;
    --probes_due_;
  }
  frame.header.boundary = boundary_;
  frame.header.progress = session_.progress();
  session_.told_progress();
  beat_due_ = false;
  wrote_since_beat_ = true;
  return frame;
}

FrameHeader Delivery::last_words() const {
  FrameHeader header;
  header.type = session_.may_leave() ? FrameType::kLeave : FrameType::kAbandon;
  header.boundary = boundary_;
  header.progress = session_.progress();
  return header;
}

void Delivery::ask() {
  session_.asked();
  ask_due_ = true;
}

void Delivery::beat() {
  beat_due_ = beat_due_ || !std::exchange(wrote_since_beat_, false) || session_.untold();
}

void Delivery::cut() {
  session_.cut();
  ask_due_ = false;
  probes_due_ = 0;
}

}  // namespace harmonics::inline in_transport
