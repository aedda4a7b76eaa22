// Reduction: the sum of named tensors over several processes or threads, the same bits everywhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/base/owned_state.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/schedule/stage_custody.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

/// In which order the ranks' values are added. Each order is fixed: the same inputs give the same
/// bits in every run and on every rank. The orders differ in rounding and in speed.
enum class Reduction {
  /// ((r0 + r1) + r2) + …, from rank to rank, and the sum back the same way: what one process that
  /// adds up the same values in that order computes, bit for bit. A rank sends each value twice at
  /// most.
  Chain,
  /// Up a binary tree and down again: the shortest way, for many ranks and small tensors.
  Tree,
  /// Round a ring, each rank summing one segment: the least traffic, 2 (n - 1) / n values per rank.
  /// The order of the sum depends on a value's place among all values.
  Ring,
};

/// "chain", "tree", "ring"; another name is an Error that lists them.
[[nodiscard]] Reduction reduction_from_name(std::string_view name);
[[nodiscard]] std::string_view reduction_name(Reduction order);

/// The most ranks of one reduction.
inline constexpr std::size_t kMaxReductionRanks = 1024;
/// The smallest and the largest chunk, in bytes.
inline constexpr std::size_t kMinReductionChunk = 64;
inline constexpr std::size_t kMaxReductionChunk = std::size_t{256} << 20;

struct ReductionOptions {
  Reduction order = Reduction::Chain;
  /// Tensors travel in pieces of at most this many bytes; small tensors share one.
  std::size_t chunk_bytes = std::size_t{1} << 20;
  /// How many chunks a rank sends before the first sum must have come back (chain and tree). The
  /// windows of the transports must have room for as many chunks, as they have by default.
  std::uint32_t chunks_ahead = 16;
  /// How long the first sum waits for each neighbour to come, and every other wait for one message.
  Nanoseconds first_contact = std::chrono::minutes(1);
  Nanoseconds deadline = std::chrono::minutes(10);
  /// How long destroying a reducer waits for neighbours to take what was sent.
  Nanoseconds closing = std::chrono::seconds(30);

  /// Throws an Error that names the first value that makes no sense.
  void check() const;
};

/// The ranks that `rank` talks to, in rising order.
[[nodiscard]] std::vector<std::size_t> reduction_peers(Reduction order, std::size_t rank,
                                                       std::size_t ranks);

/// One rank's transports, by the rank at the other end: those that reduction_peers names.
struct ReductionEnds {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  std::map<std::size_t, TransportPtr> peers = {};
};

/// The ends of all ranks of a reduction inside this process.
[[nodiscard]] std::vector<ReductionEnds> make_bus_ends(Reduction order, std::size_t ranks);

/// The ends of one rank of a reduction between processes. `places` has one entry per rank: where it
/// can be reached (host, port, transport, compress). Two ranks meet at the place of the lower one,
/// which listens there, whoever starts first, unless `places[i].listen` says otherwise; the name of
/// their boundary is "<name>/<lower>-<higher>", `places[i].name` is not used. Begins to listen or
/// to connect, never waits. A place that this rank must listen at and cannot is an Error
/// (kAlreadyExists): two ranks on one host need two ports.
[[nodiscard]] ReductionEnds make_remote_ends(Reduction order, std::size_t rank,
                                             const std::vector<RemoteBinding>& places,
                                             const std::string& name,
                                             const TransportOptions& options = {});

/// Names of the tensors of a sum, with what they are, in the order in which they will be there.
using ReductionLayout = std::vector<std::pair<std::string, TensorSpec>>;

/// One rank of a reduction. One thread at a time; all ranks must make the same sums, with the same
/// names, shapes and dtypes and the same `step`.
///
/// Memory: beside its arguments and results a rank holds chunks_ahead chunks and what its
/// transports' windows allow; in a ring one segment more (the n-th part of the tensors).
///
/// Threads: sums are made on a thread of the reducer's own, so that tensors can be on their way
/// while later ones are computed.
///
/// Failure: an Error names this rank, the other one and the step; a rank that went away is one in
/// every rank by the deadline. After an Error every later call is one: the ranks must be made anew.
class Reducer {
 public:
  /// A transport that reduction_peers names and `ends` lacks is an Error.
  Reducer(ReductionEnds ends, const ReductionOptions& options);
  /// Waits until the neighbours have what was sent.
  ~Reducer();
  Reducer(Reducer&&) noexcept;
  Reducer& operator=(Reducer&&) noexcept;

  [[nodiscard]] std::size_t rank() const;
  [[nodiscard]] std::size_t ranks() const;
  [[nodiscard]] Reduction order() const;

  /// What all ranks must have in common. At the first sum it is compared with the neighbours': a
  /// text that differs is an Error that shows both.
  void set_settings(std::string settings);

  /// From the next sum on every chunk is signed for the way, and checked before it is added; null:
  /// it is not. All ranks must do so at the same sum. `custody` is used by the thread that sums,
  /// and must outlive it. A check that fails is an Error that names the link.
  void set_custody(StageCustody* custody);

  /// The sum of all ranks' tensors (float32 or float64 in main memory), in new memory. `own` is
  /// sent as it lies: its bytes must not change until the next sum is over.
  [[nodiscard]] NamedTensors sum(const NamedTensors& own, std::uint64_t step);

  // The same for tensors that come one by one, such as gradients in a backward pass:

  /// Begins a sum of these tensors, which all ranks must list in the same order; chunks leave in
  /// that order as soon as their tensors are there. With the order ring, in name order. Results are
  /// written to tensors of `spare` where it has one of the name: whoever made the last sum with
  /// these ranks may give back here what it gave then.
  void begin(ReductionLayout layout, std::uint64_t step, const NamedTensors& spare = {});
  /// One of the tensors, which is sent as it lies: its bytes must not change until the next sum is
  /// over. Any thread, several at a time; one that was not announced, or came before, is an Error.
  void give(const std::string& name, Tensor own);
  /// The sums, once all tensors were given: one that was not given is waited for.
  [[nodiscard]] NamedTensors finish();

  /// Lets go of the other ranks, which get an Error; `why` is told in every later call.
  void abandon(const std::string& why);

 private:
  struct State;
  OwnedState<State> state_;
};

}  // namespace harmonics::inline in_schedule
