// What `secure` costs: CPU seconds of a training step of the MLP 784-1024x7-10 at batch 256 in two
// parts over TCP, both parts together, against the same step without it. Rounds take turns.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
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
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/transport/transport.h>

#include "mlp_graph.h"
#include "rounds.h"

namespace {

using namespace harmonics;

constexpr std::int64_t kBatch = 256;

/// A folder for keys and chains that goes with the object.
class Folder {
 public:
  Folder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "harmonics-secure-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail(ErrorCode::kUnavailable, "no folder '{}'", name);
    path_ = name;
    SigningKey::make("bench").save(path_ / "keys");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Both parts of a run, which take their steps on two threads.
class Pair {
 public:
  Pair(const std::filesystem::path& folder, bool secure, int micro_batches) {
    const std::vector<HarmonicGraph> parts = partition_graph(bench::mlp_graph(), 2);
    const std::string boundary = parts[0].consumers()[0].name;
    RemoteBinding place{boundary, "127.0.0.1", 0};
    place.listen = true;
    TransportPtr first = make_transport(place);
    place.port = first->binding().port;
    place.listen = false;
    std::vector<TransportPtr> ends;
    ends.push_back(std::move(first));
    ends.push_back(make_transport(place));
    for (std::size_t i = 0; i < 2; ++i) {
      RemoteOptions options;
      options.runtime.threads = 1;
      options.runtime.micro_batches = micro_batches;
      options.runtime.optimizer = {OptimizerKind::kSgd, 0.01, 0.9};
      options.runtime.secure.keys = folder / "keys";
      options.runtime.secure.chain = folder / format("{}-{}.chain", micro_batches, i);
      DeploymentDescriptor deploy;
      deploy.backend = Backend::CPU;
      deploy.secure = secure;
      parts_.push_back(
          std::make_unique<DistributedScheduler>(std::vector{parts[i]}, deploy, options));
      bind(*parts_[i], parts[i]);
    }
    parts_[0]->bindConsumer(boundary, std::move(ends[0]));
    parts_[1]->bindProducer(boundary, std::move(ends[1]));
  }

  /// CPU seconds of one step of both.
  double step() {
    return bench::measured([&] {
             auto other = std::async(std::launch::async, [&] { parts_[1]->step(); });
             parts_[0]->step();
             other.get();
           })
        .cpu;
  }

 private:
  static void bind(DistributedScheduler& scheduler, const HarmonicGraph& part) {
    for (const ProducerNode& node : part.producers()) {
      if (is_boundary_name(node.name)) continue;
      Shape shape = *node.shape;
      shape.insert(shape.begin(), kBatch);
      Tensor rows = Tensor::empty(shape, node.dtype);
      Random random(1, node.name);
      if (node.dtype == DType::kInt64) {
        for (auto& value : rows.mutable_values<std::int64_t>()) value = random.below(10);
      } else {
        for (float& value : rows.mutable_values<float>()) value = random.normal();
      }
      scheduler.bindProducer(node.name, std::make_shared<BatchProducer>(
                                            std::make_shared<MemoryProducer>(rows), kBatch));
    }
  }

  std::vector<std::unique_ptr<DistributedScheduler>> parts_;
};

bool compare(const std::filesystem::path& folder, int micro_batches, int rounds) {
  Pair plain(folder, false, micro_batches);
  Pair secure(folder, true, micro_batches);
  std::vector<double> without, with, shares;
  for (int i = 0; i < rounds + 1; ++i) {
    // The order changes, so that neither is always the one after the other.
    const double first = i % 2 == 0 ? plain.step() : secure.step();
    const double second = i % 2 == 0 ? secure.step() : plain.step();
    if (i == 0) continue;  // meets, and announces the weights
    without.push_back(i % 2 == 0 ? first : second);
    with.push_back(i % 2 == 0 ? second : first);
    shares.push_back(with.back() / without.back());
  }
  return bench::row(format("secure step, two parts over TCP, {} micro-batch(es)", micro_batches),
                    format("{:.1f} ms", 1e3 * bench::median(with)),
                    format("{:.1f} ms without", 1e3 * bench::median(without)),
                    bench::median(shares), "<= 1.03");
}

}  // namespace

int main(int argc, char** argv) {
  bool short_run = false, check = false;
  for (int i = 1; i < argc; ++i) {
    short_run |= std::string_view(argv[i]) == "--short";
    check |= std::string_view(argv[i]) == "--check";
  }
  const Folder folder;
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  for (const int micro_batches : {1, 8}) {
    good &= compare(folder.path(), micro_batches, short_run ? 1 : 41);
  }
  return check && !good ? 1 : 0;
}
