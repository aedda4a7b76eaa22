// How long a batch takes to learn in a row of stages: pass by pass, since forward and backward
// passes wait for each other over links that carry both ways at once, which no sum of a stage's
// times tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <harmonics/plan/pipeline_order.h>

namespace harmonics::inline in_plan {

/// The most passes that are played: micro-batches times stages.
inline constexpr std::size_t kMaxPlayedPasses = 4'000'000;

/// One stage; seconds and bytes are those of a micro-batch.
struct StagePasses {
  double forward_s = 0;
  double backward_s = 0;
  /// To the next stage, and back from it. Nothing takes no time, even at a bandwidth of 0.
  double sent_bytes = 0;
  double returned_bytes = 0;
  double bytes_per_s = 0;
  /// Until the first byte has arrived.
  double latency_s = 0;
  /// Hosts that take turns at it: the n-th micro-batch is for the n-th of them, in rounds.
  std::size_t copies = 1;
};

/// Seconds from the first forward pass to the last backward pass of a batch. A stage takes its
/// passes in the order of `pipeline_passes`, each as soon as what it needs has come; what it sends
/// goes while it computes. A host sends one thing at a time and takes one thing at a time, at the
/// same time as it sends. No stages or no micro-batches take 0; more than kMaxPlayedPasses are an
/// Error (kResourceExhausted). Pure; any thread.
[[nodiscard]] double batch_time_s(std::span<const StagePasses> stages, PipelineOrder order,
                                  std::uint32_t micro_batches);

}  // namespace harmonics::inline in_plan
