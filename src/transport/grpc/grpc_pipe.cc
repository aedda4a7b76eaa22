#include "grpc_pipe.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace harmonics::inline in_transport {
namespace {

// A slice that keeps its owner alive for as long as gRPC needs the bytes.
template <typename Owner>
grpc::Slice owned_slice(ByteSpan bytes, Owner owner) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size(),
          [](void* kept) { delete static_cast<Owner*>(kept); }, new Owner(std::move(owner))};
}

grpc::Slice slice_of(Bytes bytes) {
  const auto kept = std::make_shared<const Bytes>(std::move(bytes));
  return owned_slice(*kept, kept);
}

// Each message begins with its number in the call: one that HTTP/2 lost to damage on the way shows.
using MessageNumber = std::uint32_t;

grpc::ByteBuffer message_of(Piece piece, MessageNumber number) {
  std::vector<grpc::Slice> slices;
  slices.emplace_back(&number, sizeof(number));
  if (!piece.head.empty()) slices.push_back(slice_of(std::move(piece.head)));
  if (!piece.payload.empty()) slices.push_back(owned_slice(piece.payload, std::move(piece.owner)));
  if (!piece.tail.empty()) slices.push_back(slice_of(std::move(piece.tail)));
  return {slices.data(), slices.size()};
}

}  // namespace

// --- writing ---

bool GrpcPipe::has_room() const {
  const Lock lock(mutex_);
  return queued_bytes_ < kPipeQueuedBytes || ending_;
}

void GrpcPipe::write(Piece piece) {
  const Lock lock(mutex_);
  if (ending_) return;
  const std::size_t bytes = piece.size();
  queued_bytes_ += bytes;
  const bool small = !piece.owner && !outbox_.empty() && !outbox_.back().owner;
  if (small && outbox_.back().head.size() + bytes <= kGrpcGatherBytes) {
    Bytes& gathered = outbox_.back().head;
    gathered.insert(gathered.end(), piece.head.begin(), piece.head.end());
  } else {
    outbox_.push_back(std::move(piece));
  }
  if (!writing_) write_next();
}

void GrpcPipe::write_next() {
  if (outbox_.empty() || ending_) return;
  outgoing_bytes_ = outbox_.front().size();
  outgoing_ = message_of(std::move(outbox_.front()), messages_written_++);
  outbox_.pop_front();
  writing_ = true;
  start_write(&outgoing_);
}

void GrpcPipe::write_done(bool good) {
  const Lock lock(mutex_);
  writing_ = false;
  queued_bytes_ -= outgoing_bytes_;
  outgoing_.Clear();
  if (good) {
    write_next();
  } else {
    call_is_over();
  }
  finish_when_idle();
  changed_.notify_all();
}

// --- reading ---

void GrpcPipe::begin() {
  const Lock lock(mutex_);
  read_next();
}

void GrpcPipe::read_next() {
  if (reading_ || ending_ || inbox_.size() >= kPipeWaitingMessages) return;
  reading_ = true;
  start_read(&incoming_);
}

void GrpcPipe::read_done(bool good) {
  const Lock lock(mutex_);
  reading_ = false;
  if (good) {
    last_heard_ = std::chrono::steady_clock::now();
    if (!dropping_) inbox_.push_back(std::move(incoming_));
    incoming_ = {};
    read_next();
  } else {
    call_is_over();
    if (calls()) finish_when_idle();
  }
  if (arrivals_) arrivals_->signal();
  changed_.notify_all();
}

std::size_t GrpcPipe::read(std::span<std::byte> to) {
  while (slice_ == slices_.size()) {
    grpc::ByteBuffer message;
    {
      const Lock lock(mutex_);
      if (inbox_.empty()) {
        if (broken_) throw *broken_;
        return 0;
      }
      message = std::move(inbox_.front());
      inbox_.pop_front();
      last_heard_ = std::chrono::steady_clock::now();  // it may have waited for us
      read_next();
    }
    slices_.clear();
    slice_ = offset_ = 0;
    MessageNumber number = ~messages_read_;
    if (message.Dump(&slices_).ok()) {
      std::span<std::byte> left = std::as_writable_bytes(std::span(&number, 1));
      while (!left.empty() && slice_ < slices_.size()) left = left.subspan(take(left));
    }
    if (number != messages_read_++) {
      fail(ErrorCode::kDataLoss, "gRPC message {} from {} was lost or damaged on its way",
           messages_read_ - 1, peer());
    }
  }
  return take(to);
}

// Copies from the slice at hand.
std::size_t GrpcPipe::take(std::span<std::byte> to) {
  const grpc::Slice& from = slices_[slice_];
  const std::size_t count = std::min(to.size(), from.size() - offset_);
  std::memcpy(to.data(), from.begin() + offset_, count);
  offset_ += count;
  if (offset_ == from.size()) {
    slices_[slice_++] = grpc::Slice();  // gRPC may have it back
    offset_ = 0;
  }
  return count;
}

// --- waiting ---

void GrpcPipe::wait(Deadline until, bool room) {
  if (slice_ != slices_.size()) return;
  Lock lock(mutex_);
  changed_.wait_until(lock, until, [&] {
    return awake_ || broken_ || !inbox_.empty() ||
           (room && (ending_ || queued_bytes_ < kPipeQueuedBytes));
  });
  awake_ = false;
}

void GrpcPipe::doze(Deadline until) {
  Lock lock(mutex_);
  woken_doze_.wait_until(lock, until, [&] { return doze_awake_; });
  doze_awake_ = false;
}

void GrpcPipe::wake() {
  const Lock lock(mutex_);
  awake_ = doze_awake_ = true;
  changed_.notify_all();
  woken_doze_.notify_all();
}

Deadline GrpcPipe::last_heard() const {
  const Lock lock(mutex_);
  return last_heard_;
}

void GrpcPipe::clear_arrivals() {
  const Lock lock(mutex_);
  if (inbox_.empty() && !broken_) arrivals_->clear();
}

void GrpcPipe::stop_signalling() {
  const Lock lock(mutex_);
  arrivals_.reset();
}

// --- the end ---

// Under the mutex: gRPC says so. The calling side will be told why.
void GrpcPipe::call_is_over() {
  if (calls()) {
    ending_ = true;
  } else {
    break_off(Error(ErrorCode::kUnavailable, format("{} closed the connection", peer())));
  }
}

void GrpcPipe::cancelled() {
  const Lock lock(mutex_);
  call_is_over();
}

// Under the mutex. The first reason is the one that counts.
void GrpcPipe::break_off(const Error& reason) {
  if (!broken_) broken_ = reason;
  ending_ = true;
  outbox_.clear();
  if (arrivals_) arrivals_->signal();
  changed_.notify_all();
}

void GrpcPipe::finish_when_idle() {
  if (!ending_ || finished_ || writing_) return;
  finished_ = true;
  finish();
}

void GrpcPipe::shut() {
  const Lock lock(mutex_);
  break_off(Error(ErrorCode::kUnavailable, format("the connection to {} was ended", peer())));
  if (!done_) cancel();
  finish_when_idle();
}

void GrpcPipe::part(Deadline until) {
  {
    Lock lock(mutex_);
    dropping_ = true;
    inbox_.clear();
    read_next();
    const bool drained = changed_.wait_until(
        lock, until, [&] { return broken_ || ending_ || (outbox_.empty() && !writing_); });
    if (drained && !ending_) {
      if (calls()) {
        end_writes();
      } else {
        ending_ = true;
        finish_when_idle();
      }
      changed_.wait_until(lock, until, [&] { return done_; });
    }
  }
  shut();
}

void GrpcPipe::leave(Deadline until) {
  if (calls()) {
    shut();
  } else {
    part(until);
  }
}

void GrpcPipe::done(const Error& reason) {
  const Lock lock(mutex_);
  done_ = true;
  break_off(reason);
}

}  // namespace harmonics::inline in_transport
