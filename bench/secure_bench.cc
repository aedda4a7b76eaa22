// What `secure` costs: CPU seconds of a training step of the MLP 784-1024x7-10 at batch 256 in two
// parts over TCP, both parts together, against the same step without it; and the same of two
// replicas, from much computing for each weight (ResNet-18) to little (that MLP). Two plain
// runs take turns with the secure one: they are the reference, and between them show what the
// measure can tell apart.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string_view>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/custody/keys.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/transport/transport.h>

#include <temporary_folder_testing.h>

#include "pieces/made_rows.h"
#include "pieces/mlp_graph.h"
#include "rounds.h"

namespace {

using namespace harmonics;

constexpr std::int64_t kBatch = 256;

/// Two schedulers that learn together, on two threads.
class Pair {
 public:
  virtual ~Pair() = default;

  /// CPU seconds of one step of both.
  double step() {
    return bench::measured([&] {
             auto other = std::async(std::launch::async, [&] { sides_[1]->step(); });
             sides_[0]->step();
             other.get();
           })
        .cpu;
  }

 protected:
  /// Where what `name` names meets its other end.
  static std::vector<TransportPtr> connected(const std::string& name) {
    RemoteBinding place{name, "127.0.0.1", 0};
    place.listen = true;
    std::vector<TransportPtr> ends;
    ends.push_back(make_transport(place));
    place.port = ends.front()->binding().port;
    place.listen = false;
    ends.push_back(make_transport(place));
    return ends;
  }
  void add(const HarmonicGraph& graph, const std::filesystem::path& folder, bool secure,
           int micro_batches, std::int64_t batch = kBatch) {
    RemoteOptions options;
    options.runtime.threads = 1;
    options.runtime.micro_batches = micro_batches;
    options.runtime.optimizer = {OptimizerKind::kSgd, 0.01, 0.9};
    options.runtime.secure.keys = folder / "keys";
    options.runtime.secure.chain = folder / format("{}.chain", sides_.size());
    DeploymentDescriptor deploy;
    deploy.backend = Backend::CPU;
    deploy.secure = secure;
    sides_.push_back(std::make_unique<DistributedScheduler>(std::vector{graph}, deploy, options));
    for (const ProducerNode& node : graph.producers()) {
      if (is_boundary_name(node.name)) continue;
      const Tensor rows = bench::made_rows(node, batch, 10);
      sides_.back()->bindProducer(node.name, std::make_shared<BatchProducer>(
                                                 std::make_shared<MemoryProducer>(rows), batch));
    }
  }

  std::vector<std::unique_ptr<DistributedScheduler>> sides_;
};

/// Two parts of one graph.
class TwoParts final : public Pair {
 public:
  TwoParts(const std::filesystem::path& folder, bool secure, int micro_batches) {
    const std::vector<HarmonicGraph> parts = partition_graph(bench::mlp_graph(), 2);
    for (const HarmonicGraph& part : parts) add(part, folder, secure, micro_batches);
    const std::string boundary = parts[0].consumers()[0].name;
    std::vector<TransportPtr> ends = connected(boundary);
    sides_[0]->bindConsumer(boundary, std::move(ends[0]));
    sides_[1]->bindProducer(boundary, std::move(ends[1]));
  }
};

/// Two replicas of one graph, which share the batch.
class TwoReplicas final : public Pair {
 public:
  TwoReplicas(const HarmonicGraph& graph, std::int64_t batch, const std::filesystem::path& folder,
              bool secure) {
    std::vector<TransportPtr> ends = connected("replicas");
    for (std::size_t rank = 0; rank < 2; ++rank) {
      add(graph, folder, secure, 1, batch);
      ReductionEnds own{rank, 2, {}};
      own.peers.emplace(1 - rank, std::move(ends[rank]));
      sides_[rank]->join_replicas(std::move(own));
    }
  }
};

using MakePair = std::function<std::unique_ptr<Pair>(const std::filesystem::path&, bool secure)>;

// CPU seconds of the steps of each run, round by round.
struct Steps {
  std::vector<double> plain, again, secure;
};

// Runs are made anew for every sitting, each in its turn first: where their memory comes to lie
// moves a step by a percent.
void sit(const std::filesystem::path& folder, const MakePair& make, int sitting, int rounds,
         Steps& steps) {
  constexpr int kRuns = 3;
  std::vector<double>* const costs[kRuns] = {&steps.plain, &steps.again, &steps.secure};
  std::unique_ptr<Pair> runs[kRuns];
  for (int i = 0; i < kRuns; ++i) {
    const int run = (sitting + i) % kRuns;
    runs[run] = make(folder, costs[run] == &steps.secure);
    runs[run]->step();  // meets, and announces the weights
  }
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kRuns; ++i) {
      const int run = (round + i) % kRuns;
      costs[run]->push_back(runs[run]->step());
    }
  }
}

struct Sittings {
  int count, rounds;
};

bool compare(const std::string& what, const MakePair& make, const Sittings& sittings) {
  Steps steps;
  for (int i = 0; i < sittings.count; ++i) {
    const TemporaryFolder folder;
    SigningKey::make("bench").save(folder / "keys");
    sit(folder, make, i, sittings.rounds, steps);
  }
  std::vector<double> plain, shares, noise;
  for (std::size_t i = 0; i < steps.plain.size(); ++i) {
    plain.push_back((steps.plain[i] + steps.again[i]) / 2);
    shares.push_back(steps.secure[i] / plain[i]);
    noise.push_back(steps.again[i] / steps.plain[i]);
  }
  bench::row("plain step again, " + what, format("{:.1f} ms", 1e3 * bench::median(steps.again)),
             format("{:.1f} ms plain", 1e3 * bench::median(steps.plain)), bench::median(noise), "");
  return bench::row("secure step, " + what, format("{:.1f} ms", 1e3 * bench::median(steps.secure)),
                    format("{:.1f} ms without", 1e3 * bench::median(plain)), bench::median(shares),
                    "<= 1.03");
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  std::printf("name | ours | reference | ratio | bar\n");
  const Sittings many = short_run ? Sittings{1, 1} : Sittings{6, 12};
  bool good = true;
  for (const int micro_batches : {1, 8}) {
    good &= compare(
        format("two parts over TCP, {} micro-batch(es)", micro_batches),
        [&](const std::filesystem::path& folder, bool secure) {
          return std::make_unique<TwoParts>(folder, secure, micro_batches);
        },
        many);
  }
  struct Shared {
    const char* name;
    HarmonicGraph graph;
    std::int64_t batch;
    Sittings sittings;
  };
  const Sittings few = short_run ? Sittings{1, 1} : Sittings{2, 4};
  const std::vector<Shared> replicated = {
      {"LeNet at batch 256, 0.2 MB of gradients", zoo_graph("lenet"), kBatch, many},
      {"the MLP, 29 MB of gradients", bench::mlp_graph(), kBatch, many},
      {"ResNet-18 at batch 16, 47 MB of gradients", zoo_graph("resnet18"), short_run ? 2 : 16,
       few}};
  for (const Shared& one : replicated) {
    good &= compare(
        format("two replicas over TCP, {}", one.name),
        [&](const std::filesystem::path& folder, bool secure) {
          return std::make_unique<TwoReplicas>(one.graph, one.batch, folder, secure);
        },
        one.sittings);
  }
  return check && !good ? 1 : 0;
}
