// ParameterServer: keeps parameters, takes gradients from many workers and hands out the results.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <harmonics/runtime/options.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

enum class ParameterMode {
  /// An update is made of the gradients of all workers, added up in the order of their numbers:
  /// what one process learns from the same batches.
  Synchronous,
  /// Gradients are applied as they come; a worker is never more than `staleness` steps ahead of the
  /// slowest one.
  BoundedStaleness,
};

/// The most workers of one server, tensors that it keeps, and servers that share the parameters.
inline constexpr std::uint32_t kMaxParameterWorkers = 1024;
inline constexpr std::size_t kMaxParameterTensors = std::size_t{1} << 16;
inline constexpr std::uint32_t kMaxParameterShards = 256;

struct ParameterServerOptions {
  ParameterMode mode = ParameterMode::Synchronous;
  std::uint32_t staleness = 0;  ///< BoundedStaleness only
  /// Workers are numbered from 0 to one less than this.
  std::uint32_t workers = 1;
  /// Which of how many servers this is, see shard_parameters.
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  OptimizerOptions optimizer = {};
  LearningRateSchedule schedule = {};
  /// Largest norm of an update's gradients; 0 switches clipping off. Needs all parameters in one
  /// place: with several shards it is an Error.
  double clip_norm = 0;
  /// The first parameters are handed out when all workers have come, or after this time to those
  /// who have.
  Nanoseconds first_contact = std::chrono::minutes(1);
  /// A worker that has parameters and sends nothing for this long is lost: the others go on without
  /// it, and its place is free for one that comes anew.
  Nanoseconds worker_deadline = std::chrono::minutes(10);
  /// Start from this file (see save_checkpoint) instead of the given values. Empty: do not.
  std::filesystem::path restore = {};
  /// Written every `checkpoint_every` updates (0: never), before their results are handed out.
  std::filesystem::path checkpoint = {};
  std::int64_t checkpoint_every = 0;
  TransportOptions transport = {};

  /// Throws an Error that names the first value that makes no sense.
  void check() const;
};

/// Counters since the server began.
struct ParameterServerStats {
  std::uint64_t updates = 0;
  std::uint32_t workers_here = 0;
  std::uint64_t workers_joined = 0;
  /// Went away without closing, or were too slow; and sent something that was refused.
  std::uint64_t workers_lost = 0;
  std::uint64_t workers_refused = 0;
  /// The most steps that a worker was ahead of the slowest when it got parameters.
  std::uint64_t longest_lead = 0;
};

/// Two streams per worker: gradients come up the one, parameters go down the other; all streams
/// share one port. Works on threads of its own, one per worker and one that updates. Every member
/// may be called from any thread.
///
/// A worker that sends tensors of other names, shapes or dtypes, values that are not finite or
/// steps that are not its turn is refused, told why, and lost. Memory: the parameters four times at
/// most (values, optimiser state, one copy on its way), and one set of gradients per worker. A
/// message larger than the largest parameter is refused by the transport before it is read.
class ParameterServer {
 public:
  /// Begins to listen at `place` (port 0 takes a free one); boundary names begin with `place.name`,
  /// or "parameters" where it is empty.
  ParameterServer(const NamedTensors& start, const RemoteBinding& place,
                  const ParameterServerOptions& options = {});
  /// Stops: workers that are connected get an Error.
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  /// Where workers find it, with the real port.
  [[nodiscard]] RemoteBinding place() const;
  /// How many updates the parameters have seen, in all runs.
  [[nodiscard]] std::int64_t version() const;
  [[nodiscard]] NamedTensors parameters() const;
  [[nodiscard]] ParameterServerStats stats() const;

  /// Waits until that many updates were made; an Error (kDeadlineExceeded) says how many were.
  void wait_for_version(std::int64_t version, Nanoseconds patience) const;
  /// Waits until the workers that came have left again, at least one of them; likewise.
  void wait_until_left(Nanoseconds patience) const;

  /// Values, optimiser state and counters as one safetensors file (docs/formats/checkpoint.md),
  /// whole or not at all.
  void save_checkpoint(const std::filesystem::path& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Cuts parameters into `shards` sets of about equal size; depends on names and sizes alone. Some
/// are empty when there are fewer parameters than shards: an Error.
[[nodiscard]] std::vector<NamedTensors> shard_parameters(const NamedTensors& parameters,
                                                         std::uint32_t shards);

}  // namespace harmonics::inline in_schedule
