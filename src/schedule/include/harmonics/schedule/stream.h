// A stream of inference: batches flow through the parts of a graph, several at the same time.
//
// Learner::stream conducts it, the same way in one process, on threads and over processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <harmonics/base/clock.h>
#include <harmonics/data/producer.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_schedule {

using NamedProducers = std::map<std::string, ProducerPtr, std::less<>>;
using NamedConsumers = std::map<std::string, ConsumerPtr, std::less<>>;

/// A batch that has come out.
struct StreamedBatch {
  /// From 0, in the order of the data.
  std::int64_t number = 0;
  std::int64_t rows = 0;
  /// What left the graph in the parts here, by consumer.
  NamedTensors outputs = {};
  /// Of the taps here; nothing unless it was asked for.
  TapReport taps = {};
};

/// The most batches that may be asked to be under way at once.
inline constexpr std::size_t kMaxBatchesInFlight = 4096;

struct StreamOptions {
  /// Batches under way at once in all parts together; 0: two for each part. Each part holds its
  /// share and no more: in_flight / parts batches, at least one, of each boundary that enters it
  /// (times the parts that a boundary skips).
  std::size_t in_flight = 0;
  /// Compute what the taps here say; their targets must be bound then.
  bool measure = false;
  /// Batches that the consumers here have got already, from a stream that broke off: these are
  /// computed again only where consumers elsewhere lack them, and are not pushed again.
  std::int64_t delivered = 0;
  /// Told of every batch in order, after the consumers; one call at a time, on the thread of a
  /// part.
  std::function<void(const StreamedBatch&)> on_batch = {};
  /// When it becomes true, parts that read data take no further batch; those under way come out.
  const std::atomic<bool>* stop = nullptr;
  /// Measure what carries boundaries before the first batch; all parts must say so.
  bool probe_carriers = false;
};

/// What carried a boundary to another process did before the first batch.
struct CarrierMeasure {
  std::string boundary;
  /// From one end to the other: half a round trip.
  Nanoseconds latency{};
  double bytes_per_s = 0;
};

/// What one part did in a stream. The three times are all of its time.
struct PartFlow {
  std::string part;
  std::int64_t batches = 0;
  /// Computing.
  Nanoseconds busy{};
  /// Of that, the part's own thread was on a core, and was ready while others had the cores (0
  /// where the system does not say).
  Nanoseconds cpu{};
  Nanoseconds for_core{};
  /// Waiting for tensors of other parts, or for data to be read.
  Nanoseconds for_input{};
  /// Waiting until other parts, or the consumers, had room for what it made.
  Nanoseconds for_room{};
  /// From one batch to the next, between the first and the last that it finished.
  Nanoseconds period{};
  /// Tensors and what rides along, to other parts.
  std::uint64_t bytes_sent = 0;
  /// Of boundaries that leave, where that was measured.
  std::vector<CarrierMeasure> carriers = {};
};

struct StreamReport {
  /// Since this stream began: without batches that were delivered before.
  std::int64_t batches = 0;
  std::int64_t rows = 0;
  TapReport taps;
  /// `stop` ended it before the data did.
  bool interrupted = false;
  /// The parts here, in order.
  std::vector<PartFlow> parts;
};

}  // namespace harmonics::inline in_schedule
