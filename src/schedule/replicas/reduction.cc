#include <harmonics/schedule/reduction.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/exception_text.h>

#include "parts/part_thread.h"
#include "reduction_chunks.h"
#include "reduction_neighbours.h"
#include "remote/farewell.h"

namespace harmonics::inline in_schedule {

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
      : neighbours(std::move(given), wanted) {}

  void check_usable() const {
    if (stopped_by.empty()) return;
    fail(ErrorCode::kFailedPrecondition,
         "rank {} of {} has stopped ({}); make all ranks anew and go on from a checkpoint",
         neighbours.rank(), neighbours.ranks(), stopped_by);
  }

  // The ring's order of adding depends on the place of a value among all: in name order, as ever.
  void cut(ReductionLayout layout) {
    const ReductionOptions& options = neighbours.options();
    if (cuts_freely(options.order)) {
      chunks.emplace(std::move(layout), options.chunk_bytes, ChunkCut::kByTensor);
      return;
    }
    std::ranges::sort(layout, {}, &ReductionLayout::value_type::first);
    std::size_t bytes = 0;
    for (const auto& [name, spec] : layout) bytes += static_cast<std::size_t>(byte_count(spec));
    chunks.emplace(std::move(layout),
                   std::clamp(bytes / neighbours.ranks(), kMinReductionChunk, options.chunk_bytes),
                   ChunkCut::kFull);
  }

  void begin(ReductionLayout layout, std::uint64_t step, const NamedTensors& spare) {
    cut(std::move(layout));
    neighbours.begin(step, *chunks);
    result = chunks->results(spare);
  }

  void reduce() {
    neighbours.meet();
    reduce_over(neighbours, *chunks, result);
    neighbours.end_step();
  }

  void abandon(const std::string& why) {
    if (!stopped_by.empty()) return;
    stopped_by = why;
    if (chunks) chunks->cancel();
    // A closed link is certain to be noticed, an abandoned one only if it holds out.
    if (neighbours.has_begun())
      neighbours.close(std::min<Nanoseconds>(neighbours.options().closing, kFarewell));
    if (under_way.valid()) under_way.wait();
    neighbours.drop();
  }

  ReductionNeighbours neighbours;
  std::string stopped_by;
  std::optional<ReductionChunks> chunks;
  NamedTensors result;
  std::future<void> under_way;
  std::optional<PartThread> lane;  // adds while its owner computes; made when it is first needed
};

Reducer::Reducer(ReductionEnds ends, const ReductionOptions& options)
    : state_("reducer", std::make_unique<State>(std::move(ends), options)) {}
Reducer::~Reducer() {
  if (!state_ || !state_->stopped_by.empty()) return;
  if (state_->under_way.valid()) {
    state_->abandon("it was destroyed in the middle of a sum");
  } else if (state_->neighbours.has_met()) {
    state_->neighbours.close(state_->neighbours.options().closing);
  }
}
Reducer::Reducer(Reducer&&) noexcept = default;
Reducer& Reducer::operator=(Reducer&&) noexcept = default;

std::size_t Reducer::rank() const { return state_->neighbours.rank(); }
std::size_t Reducer::ranks() const { return state_->neighbours.ranks(); }

Reduction Reducer::order() const { return state_->neighbours.options().order; }

void Reducer::set_settings(std::string settings) {
  state_->neighbours.set_settings(std::move(settings));
}

void Reducer::set_custody(StageCustody* custody) { state_->neighbours.set_custody(custody); }

NamedTensors Reducer::sum(const NamedTensors& own, std::uint64_t step) {
  begin(layout_of(own), step);
  try {
    for (const auto& [name, tensor] : own) give(name, tensor);
  } catch (const std::exception& error) {
    abandon(exception_text(error));
    throw;
  }
  return finish();
}

void Reducer::begin(ReductionLayout layout, std::uint64_t step, const NamedTensors& spare) {
  state_->check_usable();
  try {
    state_->begin(std::move(layout), step, spare);
  } catch (const std::exception& error) {
    abandon(exception_text(error));
    throw;
  }
  if (ranks() == 1) return;
  if (!state_->lane) state_->lane.emplace();
  state_->under_way = state_->lane->post([state = &*state_] { state->reduce(); });
}

void Reducer::give(const std::string& name, Tensor own) {
  state_->chunks->give(name, std::move(own));
}

NamedTensors Reducer::finish() {
  State& state = *state_;
  state.check_usable();
  try {
    if (ranks() == 1) {
      for (std::size_t chunk = 0; chunk < state.chunks->count(); ++chunk) {
        state.chunks->await(chunk);
        state.chunks->store(chunk, state.chunks->values(chunk), state.result);
      }
    } else {
      state.under_way.get();
    }
    state.chunks.reset();
    return std::exchange(state.result, {});
  } catch (const std::exception& error) {
    abandon(exception_text(error));
    throw;
  }
}

void Reducer::abandon(const std::string& why) { state_->abandon(why); }

}  // namespace harmonics::inline in_schedule
