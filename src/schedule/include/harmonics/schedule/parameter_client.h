// ParameterClient: a worker's end of one or more parameter servers.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/schedule/parameter_server.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_schedule {

struct ParameterClientOptions {
  /// This worker's number; no two workers share one.
  std::uint32_t worker = 0;
  /// How long the first pull waits for the servers, which wait for the other workers; and every
  /// later wait, which includes that for the slowest worker.
  Nanoseconds first_contact = std::chrono::minutes(2);
  Nanoseconds deadline = std::chrono::minutes(20);
  /// How long close waits for the servers to take what was sent.
  Nanoseconds closing = std::chrono::seconds(30);
  TransportOptions transport = {};
};

/// Takes parameters and gives gradients, in turns: pull, push, pull, push, … One thread at a time.
/// An Error names the server; the streams to it are then of no use, until `reconnect`.
///
///     ParameterClient client({{"", "server", 9000, RemoteTransport::GRPC}});
///     for (int step = 0; step < 100; ++step) {
///       client.pull();
///       client.push(gradients_at(client.parameters(), client.version()), 32, 32);
///     }
///     client.close();
class ParameterClient {
 public:
  /// One place per shard, in any order. Begins to connect, never waits.
  ParameterClient(std::vector<RemoteBinding> servers, const ParameterClientOptions& options = {});
  /// Without close the servers count this worker as lost.
  ~ParameterClient();
  ParameterClient(ParameterClient&&) noexcept;
  ParameterClient& operator=(ParameterClient&&) noexcept;

  /// Waits for the next parameters. In synchronous mode all shards must be at one version: another
  /// one (a server that came back from an older checkpoint) is an Error that names both.
  void pull();
  /// What the last pull brought. The version counts updates; after a server came back from a
  /// checkpoint it may be an older one, from which the worker must go on.
  [[nodiscard]] const NamedTensors& parameters() const;
  [[nodiscard]] std::int64_t version() const;
  [[nodiscard]] std::uint32_t worker() const;
  /// The number of workers that the servers expect.
  [[nodiscard]] std::uint32_t workers() const;

  /// Gradients for every parameter, computed from what the last pull brought: those of the sum of
  /// the losses of `samples` rows, divided by `batch_samples`, the rows of the batch of all workers
  /// (in bounded-staleness mode: by the same number). A gradient that is missing or of another
  /// shape or dtype is an Error here; names that no server has are ignored.
  void push(const NamedTensors& gradients, std::int64_t samples, std::int64_t batch_samples);

  /// Leaves: the servers go on without this worker.
  void close();
  /// Gives up all streams and begins to connect again, as a worker that comes anew: pull is next.
  void reconnect();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Computes the gradients of a whole graph for parameter servers. One thread. The servers keep what
/// is trained. Running statistics (batch norm) are each worker's own, and so are the parameters of
/// frozen layers: those of the seed, or of the weights that each worker loads.
class ParameterWorker {
 public:
  ParameterWorker(const HarmonicGraph& graph, const RuntimeOptions& options,
                  ParameterClient client);
  ~ParameterWorker();
  ParameterWorker(ParameterWorker&&) noexcept;
  ParameterWorker& operator=(ParameterWorker&&) noexcept;

  /// Takes weights from a file, as load_weights of checkpoint.h does: what is frozen keeps them.
  void load_weights(const std::filesystem::path& path);

  /// Takes the next parameters over and gives their version: in synchronous mode the number of the
  /// batch that is due.
  std::int64_t pull();
  /// Computes this worker's share of the rows of `batch`, which all workers are given alike, cut
  /// like that of a replica (docs/guides/data-parallel.md), and sends the gradients. Tells what the
  /// taps saw in these rows. A loss that is not finite is an Error.
  TapReport push_share(const NamedTensors& batch);
  /// The same for a batch of this worker alone, for bounded staleness.
  TapReport push_batch(const NamedTensors& batch);

  [[nodiscard]] ParameterClient& client();
  [[nodiscard]] NamedTensors parameters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The start values of what a graph trains, for a server: those that every process has that is
/// given the same seed, or, where `weights` names a file, the same weights.
[[nodiscard]] NamedTensors trained_parameters(const HarmonicGraph& graph,
                                              const RuntimeOptions& options,
                                              const std::filesystem::path& weights = {});

}  // namespace harmonics::inline in_schedule
