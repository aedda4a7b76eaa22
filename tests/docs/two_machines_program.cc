// The program of docs/guides/two-machines.md, as it stands there, and its other block: built, not
// run.
#include <harmonics/harmonics.h>
using namespace harmonics;

int main() {
  const auto parts = partition_graph(load_harp("digits.harp"), 2);
  const RemoteBinding meeting{parts[0].consumers().front().name, "gpu-box", 9000};
  RemoteOptions options;
  options.runtime.micro_batches = 4;

  // On the first machine:
  RemoteScheduler first(parts[0], {}, {meeting}, {}, options);
  const auto rows = open_producer("csv:digits.csv?columns=0-63&scale=0.0625");
  first.bindProducer("image",
                     std::make_shared<BatchProducer>(std::make_shared<ShuffleProducer>(rows), 32));
  first.fit(30);
  first.save_checkpoint("first.safetensors");
}

// Parts that share a process.
void some_parts(const std::vector<HarmonicGraph>& parts, const RemoteOptions& options) {
  DeploymentDescriptor deploy;
  deploy.partitions.resize(2);
  deploy.partitions[1].target = "tcp://gpu-box:9000";
  DistributedScheduler scheduler({parts[0], parts[1]}, deploy, options);
}
