#include "reduction_neighbours.h"

#include <algorithm>
#include <utility>

#include <harmonics/base/log.h>

#include "secure/secure_replicas.h"

namespace harmonics::inline in_schedule {
namespace {

/// The layout and the way, in front of a seal.
constexpr std::size_t kReductionMarkBytes = 2 * sizeof(std::uint32_t);

}  // namespace

ReductionNeighbours::ReductionNeighbours(ReductionEnds ends, const ReductionOptions& options)
    : ends_(std::move(ends)), options_(options) {
  options_.check();
  for (const std::size_t peer : reduction_peers(options_.order, ends_.rank, ends_.ranks)) {
    const auto end = ends_.peers.find(peer);
    if (end != ends_.peers.end() && end->second != nullptr) continue;
    fail(ErrorCode::kInvalidArgument, "rank {} of {} has no transport to rank {}", ends_.rank,
         ends_.ranks, peer);
  }
}

void ReductionNeighbours::begin(std::uint64_t step, const ReductionChunks& chunks) {
  step_ = step;
  chunks_ = &chunks;
}

void ReductionNeighbours::send(std::size_t peer, ReductionWay way, std::size_t chunk,
                               const Tensor& values) {
  ByteWriter mark;
  mark.number(chunks_->layout());
  mark.number(static_cast<std::uint32_t>(way));
  Message message{MessageKind::kGradient, step_, static_cast<std::uint32_t>(chunk), values,
                  mark.take()};
  if (custody_ != nullptr) {
    const Bytes seal =
        custody_->seal(passage(ends_.rank, peer, way, chunk), values, message.attachment);
    message.attachment.insert(message.attachment.end(), seal.begin(), seal.end());
  }
  with(peer, [&](Transport& end) { end.send(message, deadline_in(options_.deadline)); });
}

Tensor ReductionNeighbours::receive(std::size_t peer, ReductionWay way, std::size_t chunk) {
  return with(peer, [&](Transport& end) {
    std::optional<Message> message = end.receive(deadline_in(options_.deadline));
    if (!message) fail(ErrorCode::kUnavailable, "it has closed");
    if (custody_ != nullptr) check_seal(peer, way, chunk, *message);
    ByteReader mark(message->attachment, "reduction mark");
    if (message->kind != MessageKind::kGradient || message->step != step_) {
      fail(ErrorCode::kDataLoss, "{} of step {} came: the ranks are out of step",
           message_kind_name(message->kind), message->step + 1);
    }
    if (mark.number<std::uint32_t>() != chunks_->layout()) {
      fail(ErrorCode::kInvalidArgument,
           "it reduces other tensors: all ranks must give the same names, shapes and dtypes");
    }
    if (mark.number<std::uint32_t>() != static_cast<std::uint32_t>(way) ||
        message->micro_batch != chunk || message->tensor.spec() != chunks_->spec(chunk)) {
      fail(ErrorCode::kDataLoss, "chunk {} was due, another one came", chunk);
    }
    return std::move(message->tensor);
  });
}

// What is gathered and what is spread are passages of their own: a sum that goes up is made from
// those that came from below, and names them.
Passage ReductionNeighbours::passage(std::size_t from, std::size_t to, ReductionWay way,
                                     std::size_t chunk) const {
  return {sums_boundary(from, to), from < to ? Direction::kForward : Direction::kBackward, step_,
          static_cast<std::uint32_t>(2 * chunk + static_cast<std::size_t>(way))};
}

void ReductionNeighbours::check_seal(std::size_t peer, ReductionWay way, std::size_t chunk,
                                     const Message& message) {
  const ByteSpan all(message.attachment);
  const std::size_t mark = std::min(all.size(), kReductionMarkBytes);
  custody_->check(passage(peer, ends_.rank, way, chunk), message.tensor, all.subspan(mark),
                  all.first(mark));
}

void ReductionNeighbours::end_step() {
  if (custody_ != nullptr) custody_->end_step();
}

void ReductionNeighbours::meet() {
  if (met_) return;
  begun_ = true;
  ByteWriter own;
  own.number(static_cast<std::uint32_t>(ends_.ranks));
  own.number(static_cast<std::uint32_t>(options_.order));
  own.number(static_cast<std::uint64_t>(options_.chunk_bytes));
  own.text(settings_);
  const Message message{MessageKind::kControl, step_, 0, {}, own.take()};
  const auto patience = deadline_in(options_.first_contact);
  for (auto& [peer, end] : ends_.peers) {
    with(peer, [&](Transport& to) { to.send(message, patience); });
  }
  for (auto& [peer, end] : ends_.peers) {
    with(peer, [&](Transport& from) { compare(from.receive(patience)); });
  }
  met_ = true;
}

void ReductionNeighbours::compare(const std::optional<Message>& message) const {
  if (!message) fail(ErrorCode::kUnavailable, "it has closed");
  if (message->kind != MessageKind::kControl || message->step != step_) {
    fail(ErrorCode::kDataLoss, "it is at step {}: start all ranks from the same checkpoint",
         message->step + 1);
  }
  ByteReader in(message->attachment, "reduction greeting");
  const auto ranks = in.number<std::uint32_t>();
  const auto order = in.number<std::uint32_t>();
  const auto chunk = in.number<std::uint64_t>();
  const std::string theirs = in.text(kMaxAttachmentBytes);
  if (ranks != ends_.ranks || order != static_cast<std::uint32_t>(options_.order) ||
      chunk != options_.chunk_bytes) {
    fail(ErrorCode::kInvalidArgument,
         "it counts {} ranks, reduces in order {} and chunks of {} bytes, this one {}, {} and {}",
         ranks, order, chunk, ends_.ranks, static_cast<std::uint32_t>(options_.order),
         options_.chunk_bytes);
  }
  if (theirs != settings_) {
    fail(ErrorCode::kInvalidArgument, "it runs with '{}', this one with '{}'", theirs, settings_);
  }
}

void ReductionNeighbours::close(Nanoseconds patience) noexcept {
  const Deadline deadline = deadline_in(patience);
  for (const auto& [peer, end] : ends_.peers) {
    try {
      end->close(deadline);
    } catch (const std::exception& error) {
      log_warn("schedule", "rank {} closes its link to rank {}: {}", ends_.rank, peer,
               error.what());
    }
  }
}

}  // namespace harmonics::inline in_schedule
