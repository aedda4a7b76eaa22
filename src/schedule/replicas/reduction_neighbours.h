// ReductionNeighbours: a rank's links to the ranks that it adds with (private to schedule).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/schedule/reduction.h>

#include "reduction_chunks.h"

namespace harmonics::inline in_schedule {

/// Values on their way to a sum, and sums on their way to everybody.
enum class ReductionWay : std::uint32_t { kGather, kSpread };

/// One thread at a time, save `close`, which ends the waits of another. An Error names both ranks
/// and the step.
class ReductionNeighbours {
 public:
  /// Options that make no sense, or a transport that is missing, are an Error.
  ReductionNeighbours(ReductionEnds ends, const ReductionOptions& options);

  [[nodiscard]] std::size_t rank() const { return ends_.rank; }
  [[nodiscard]] std::size_t ranks() const { return ends_.ranks; }
  [[nodiscard]] const ReductionOptions& options() const { return options_; }
  [[nodiscard]] bool has_begun() const { return begun_; }
  [[nodiscard]] bool has_met() const { return met_; }

  void set_settings(std::string settings) { settings_ = std::move(settings); }
  /// See Reducer. `end_step` signs what was sent and received since the last.
  void set_custody(StageCustody* custody) { custody_ = custody; }
  void end_step();
  /// What is sent and received next belongs to this step and these chunks.
  void begin(std::uint64_t step, const ReductionChunks& chunks);
  /// The first time it tells the neighbours what this rank is, and compares.
  void meet();
  void send(std::size_t peer, ReductionWay way, std::size_t chunk, const Tensor& values);
  [[nodiscard]] Tensor receive(std::size_t peer, ReductionWay way, std::size_t chunk);

  /// Closes all links within `patience`; the ends stay until `drop`.
  void close(Nanoseconds patience) noexcept;
  void drop() { ends_.peers.clear(); }

 private:
  /// Does something with the transport to `peer`.
  template <typename Action>
  auto with(std::size_t peer, Action&& action) {
    try {
      return action(*ends_.peers.at(peer));
    } catch (const Error& error) {
      fail(error.code(), "reduction of step {}, rank {} of {}, with rank {}: {}", step_ + 1,
           ends_.rank, ends_.ranks, peer, error.what());
    }
  }
  void compare(const std::optional<Message>& message) const;
  [[nodiscard]] Passage passage(std::size_t from, std::size_t to, ReductionWay way,
                                std::size_t chunk) const;
  void check_seal(std::size_t peer, ReductionWay way, std::size_t chunk, const Message& message);

  ReductionEnds ends_;
  const ReductionOptions options_;
  std::string settings_;
  bool begun_ = false;
  bool met_ = false;
  std::uint64_t step_ = 0;
  const ReductionChunks* chunks_ = nullptr;
  StageCustody* custody_ = nullptr;
};

/// Fills `result`, tensors of the chunks' layout, with the sums over all ranks in the order that
/// the options name. Waits for chunks that have not come yet.
void reduce_over(ReductionNeighbours& neighbours, const ReductionChunks& chunks,
                 NamedTensors& result);

/// True where the bits of the sums do not depend on which chunk a value is in.
[[nodiscard]] bool cuts_freely(Reduction order);

}  // namespace harmonics::inline in_schedule
