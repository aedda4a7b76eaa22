#include <harmonics/schedule/reduction.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>
#include <harmonics/base/log.h>

#include "reduction_chunks.h"
#include "reduction_shape.h"
#include "remote/farewell.h"

namespace harmonics::inline in_schedule {
namespace {

/// Values on their way to a sum, and sums on their way to everybody.
enum class Way : std::uint32_t { kGather, kSpread };

}  // namespace

void ReductionOptions::check() const {
  if (chunk_bytes < kMinReductionChunk || chunk_bytes > kMaxReductionChunk) {
    fail(ErrorCode::kInvalidArgument, "reduction chunks of {} bytes: choose {} to {}", chunk_bytes,
         kMinReductionChunk, kMaxReductionChunk);
  }
  if (chunks_ahead < 1 || chunks_ahead > kMaxWindowMessages) {
    fail(ErrorCode::kInvalidArgument, "a reduction {} chunks ahead: choose 1 to {}", chunks_ahead,
         kMaxWindowMessages);
  }
  if (deadline <= Nanoseconds(0) || first_contact <= Nanoseconds(0)) {
    fail(ErrorCode::kInvalidArgument, "the deadlines of a reduction must be positive");
  }
}

struct Reducer::State {
  State(ReductionEnds given, const ReductionOptions& wanted)
      : ends(std::move(given)), options(wanted) {
    options.check();
    for (const std::size_t peer : reduction_peers(options.order, ends.rank, ends.ranks)) {
      const auto end = ends.peers.find(peer);
      if (end != ends.peers.end() && end->second != nullptr) continue;
      fail(ErrorCode::kInvalidArgument, "rank {} of {} has no transport to rank {}", ends.rank,
           ends.ranks, peer);
    }
  }

  /// Does something with the transport to `peer`; its Error names both ranks and the step.
  template <typename Action>
  auto with(std::size_t peer, Action&& action) {
    try {
      return action(*ends.peers.at(peer));
    } catch (const Error& error) {
      fail(error.code(), "reduction of step {}, rank {} of {}, with rank {}: {}", step + 1,
           ends.rank, ends.ranks, peer, error.what());
    }
  }

  void send(std::size_t peer, Way way, std::size_t chunk, const Tensor& values) {
    ByteWriter mark;
    mark.number(chunks->layout());
    mark.number(static_cast<std::uint32_t>(way));
    const Message message{MessageKind::kGradient, step, static_cast<std::uint32_t>(chunk), values,
                          mark.take()};
    with(peer, [&](Transport& end) { end.send(message, deadline_in(options.deadline)); });
  }

  Tensor receive(std::size_t peer, Way way, std::size_t chunk) {
    return with(peer, [&](Transport& end) {
      std::optional<Message> message = end.receive(deadline_in(options.deadline));
      if (!message) fail(ErrorCode::kUnavailable, "it has closed");
      ByteReader mark(message->attachment, "reduction mark");
      if (message->kind != MessageKind::kGradient || message->step != step) {
        fail(ErrorCode::kDataLoss, "{} of step {} came: the ranks are out of step",
             message_kind_name(message->kind), message->step + 1);
      }
      if (mark.number<std::uint32_t>() != chunks->layout()) {
        fail(ErrorCode::kInvalidArgument,
             "it reduces other tensors: all ranks must give the same names, shapes and dtypes");
      }
      if (mark.number<std::uint32_t>() != static_cast<std::uint32_t>(way) ||
          message->micro_batch != chunk || message->tensor.spec() != chunks->spec(chunk)) {
        fail(ErrorCode::kDataLoss, "chunk {} was due, another one came", chunk);
      }
      return std::move(message->tensor);
    });
  }

  /// Tells the neighbours what this rank is, and compares.
  void meet() {
    begun = true;
    ByteWriter own;
    own.number(static_cast<std::uint32_t>(ends.ranks));
    own.number(static_cast<std::uint32_t>(options.order));
    own.number(static_cast<std::uint64_t>(options.chunk_bytes));
    own.text(settings);
    const Message message{MessageKind::kControl, step, 0, {}, own.take()};
    const auto patience = deadline_in(options.first_contact);
    for (auto& [peer, end] : ends.peers) {
      with(peer, [&](Transport& to) { to.send(message, patience); });
    }
    for (auto& [peer, end] : ends.peers) {
      with(peer, [&](Transport& from) { compare(from.receive(patience)); });
    }
    met = true;
  }

  void compare(const std::optional<Message>& message) const {
    if (!message) fail(ErrorCode::kUnavailable, "it has closed");
    if (message->kind != MessageKind::kControl || message->step != step) {
      fail(ErrorCode::kDataLoss, "it is at step {}: start all ranks from the same checkpoint",
           message->step + 1);
    }
    ByteReader in(message->attachment, "reduction greeting");
    const auto ranks = in.number<std::uint32_t>();
    const auto order = in.number<std::uint32_t>();
    const auto chunk = in.number<std::uint64_t>();
    const std::string theirs = in.text(kMaxAttachmentBytes);
    if (ranks != ends.ranks || order != static_cast<std::uint32_t>(options.order) ||
        chunk != options.chunk_bytes) {
      fail(ErrorCode::kInvalidArgument,
           "it counts {} ranks, reduces in order {} and chunks of {} bytes, this one {}, {} and {}",
           ranks, order, chunk, ends.ranks, static_cast<std::uint32_t>(options.order),
           options.chunk_bytes);
    }
    if (theirs != settings) {
      fail(ErrorCode::kInvalidArgument, "it runs with '{}', this one with '{}'", theirs, settings);
    }
  }

  /// Sums flow up the tree, the root's results flow down; chunks follow each other closely.
  void reduce_by_tree(NamedTensors& result) {
    const ReductionTree tree = reduction_tree(options.order, ends.rank, ends.ranks);
    const std::size_t ahead = tree.parent ? options.chunks_ahead : 1;
    std::size_t sent = 0;
    Tensor whole;  // the root's
    for (std::size_t back = 0; back < chunks->count(); ++back) {
      for (; sent < chunks->count() && sent - back < ahead; ++sent) {
        Tensor sum = chunks->values(sent);
        for (const std::size_t child : tree.children) {
          sum = sum_of(receive(child, Way::kGather, sent), sum);
        }
        if (tree.parent) send(*tree.parent, Way::kGather, sent, sum);
        whole = std::move(sum);
      }
      if (tree.parent) whole = receive(*tree.parent, Way::kSpread, back);
      for (const std::size_t child : tree.children) send(child, Way::kSpread, back, whole);
      chunks->store(back, whole, result);
    }
  }

  /// Segment s starts at rank s and goes round once to be summed, and once more as the result.
  void reduce_by_ring(NamedTensors& result) {
    const std::size_t ranks = ends.ranks;
    std::vector<Tensor> carried(chunks->count());  // of the segment that goes out next
    const auto first_of = [&](std::size_t segment) { return chunks->count() * segment / ranks; };
    for (std::size_t turn = 0; turn < 2 * (ranks - 1); ++turn) {
      const bool gathers = turn < ranks - 1;
      const std::size_t out = (ends.rank + 2 * ranks - turn) % ranks;
      const std::size_t in = (out + ranks - 1) % ranks;
      std::size_t leaving = first_of(out);
      std::size_t entering = first_of(in);
      while (leaving < first_of(out + 1) || entering < first_of(in + 1)) {
        if (leaving < first_of(out + 1)) {
          Tensor values = turn == 0 ? chunks->values(leaving) : std::move(carried[leaving]);
          send((ends.rank + 1) % ranks, gathers ? Way::kGather : Way::kSpread, leaving, values);
          ++leaving;
        }
        if (entering < first_of(in + 1)) {
          const Way way = gathers ? Way::kGather : Way::kSpread;
          Tensor came = receive((ends.rank + ranks - 1) % ranks, way, entering);
          if (gathers) came = sum_of(came, chunks->values(entering));
          if (turn + 2 >= ranks) chunks->store(entering, came, result);
          carried[entering] = std::move(came);
          ++entering;
        }
      }
    }
  }

  NamedTensors sum(const NamedTensors& own) {
    std::size_t chunk_bytes = options.chunk_bytes;
    if (options.order == Reduction::Ring) {
      std::size_t bytes = 0;
      for (const auto& [name, tensor] : own) bytes += tensor.byte_size();
      chunk_bytes = std::clamp(bytes / ends.ranks, kMinReductionChunk, chunk_bytes);
    }
    chunks.emplace(own, chunk_bytes);
    if (ends.ranks == 1) return own;
    if (!met) meet();
    NamedTensors result = empty_like(own);
    if (options.order == Reduction::Ring) {
      reduce_by_ring(result);
    } else {
      reduce_by_tree(result);
    }
    return result;
  }

  void close(Nanoseconds patience) noexcept {
    const Deadline deadline = deadline_in(patience);
    for (const auto& [peer, end] : ends.peers) {
      try {
        end->close(deadline);
      } catch (const std::exception& error) {
        log_warn("schedule", "rank {} closes its link to rank {}: {}", ends.rank, peer,
                 error.what());
      }
    }
    ends.peers.clear();
  }

  void abandon(const std::string& why) {
    if (!stopped_by.empty()) return;
    stopped_by = why;
    // A closed link is certain to be noticed, an abandoned one only if it holds out.
    if (begun) close(std::min<Nanoseconds>(options.closing, kFarewell));
    ends.peers.clear();
  }

  ReductionEnds ends;
  ReductionOptions options;
  std::string settings;
  bool begun = false;
  bool met = false;
  std::string stopped_by;
  std::uint64_t step = 0;
  std::optional<ReductionChunks> chunks;
};

Reducer::Reducer(ReductionEnds ends, const ReductionOptions& options)
    : state_("reducer", std::make_unique<State>(std::move(ends), options)) {}
Reducer::~Reducer() {
  if (state_ && state_->met && state_->stopped_by.empty()) state_->close(state_->options.closing);
}
Reducer::Reducer(Reducer&&) noexcept = default;
Reducer& Reducer::operator=(Reducer&&) noexcept = default;

std::size_t Reducer::rank() const { return state_->ends.rank; }
std::size_t Reducer::ranks() const { return state_->ends.ranks; }

void Reducer::set_settings(std::string settings) { state_->settings = std::move(settings); }

NamedTensors Reducer::sum(const NamedTensors& own, std::uint64_t step) {
  if (!state_->stopped_by.empty()) {
    fail(ErrorCode::kFailedPrecondition,
         "rank {} of {} has stopped ({}); make all ranks anew and go on from a checkpoint", rank(),
         ranks(), state_->stopped_by);
  }
  state_->step = step;
  try {
    NamedTensors result = state_->sum(own);
    state_->chunks.reset();
    return result;
  } catch (const std::exception& error) {
    abandon(exception_text(error));
    throw;
  }
}

void Reducer::abandon(const std::string& why) { state_->abandon(why); }

}  // namespace harmonics::inline in_schedule
