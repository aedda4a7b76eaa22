// How parts of a graph in several processes work together: one struct of defaults.
#pragma once

#include <chrono>

#include <harmonics/base/clock.h>
#include <harmonics/runtime/options.h>
#include <harmonics/schedule/part_copies.h>
#include <harmonics/schedule/pipeline.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

struct RemoteOptions {
  /// Seed, micro-batches, clipping and precision must be the same in all parts.
  RuntimeOptions runtime = {};
  /// Order of the micro-batches, and the longest wait for one tensor of another part.
  PipelineOptions pipeline = {};
  TransportOptions transport = {};
  /// Where parts have several copies: of a scheduler with one part.
  PartCopies copies = {};
  /// How long the first step waits for each neighbour to come.
  Nanoseconds first_contact = std::chrono::minutes(1);
  /// How long destroying a scheduler waits for neighbours to take what was sent.
  Nanoseconds closing = std::chrono::seconds(30);
};

}  // namespace harmonics::inline in_schedule
