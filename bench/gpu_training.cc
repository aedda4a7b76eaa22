// Training throughput on a GPU, in bf16: a graph cut in two on one device, and CycleRuntime, each
// over the same network hand-written on libtorch with equal micro-batches. Without a GPU it runs a
// single small round on the CPU in float32, which measures nothing, has no bar, but keeps the
// program honest; HARMONICS_REQUIRE_GPU=1 makes that an error.
//
//   build-*/bench/gpu_training [--short] [--check]
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/tensor/torch.h>

#include "reference/libtorch_mixed_networks.h"
#include "rounds.h"

namespace {

using namespace harmonics;

struct Setup {
  bool gpu = false;
  int rounds = 9;
  int steps = 10;

  at::Device device() const { return gpu ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU); }
  RuntimeOptions options(int micro_batches) const {
    RuntimeOptions made;
    made.optimizer = {OptimizerKind::kSgd, 0.01, 0.9};
    made.backend = gpu ? Backend::GPU : Backend::CPU;
    made.precision = gpu ? PrecisionPolicy::kBf16 : PrecisionPolicy::kFull;
    made.strict = true;
    made.deterministic = false;  // as the reference
    made.micro_batches = micro_batches;
    return made;
  }
};

template <typename Network>
std::unique_ptr<reference::MixedNetwork> by_hand(const StageRow& row, const Setup& setup) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, value] : row.parameters()) {
    weights[name] = to_torch(value).clone().to(setup.device());
  }
  return std::make_unique<Network>(std::move(weights), setup.gpu ? at::kBFloat16 : at::kFloat);
}

/// The loop that one would write: slices, losses over the whole batch, one update.
class HandLoop {
 public:
  HandLoop(std::unique_ptr<reference::MixedNetwork> network, int micro_batches, at::Device device)
      : network_(std::move(network)),
        optimizer_(network_->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)),
        micro_batches_(micro_batches),
        device_(device) {}

  double train(const at::Tensor& image, const at::Tensor& label) {
    optimizer_.zero_grad();
    double loss_sum = 0;
    const auto images = image.chunk(micro_batches_), labels = label.chunk(micro_batches_);
    for (std::size_t i = 0; i < images.size(); ++i) {
      const at::Tensor x = images[i].to(device_, /*non_blocking=*/true);
      const at::Tensor y = labels[i].to(device_, /*non_blocking=*/true);
      const at::Tensor loss = torch::nn::functional::cross_entropy(
          network_->forward(x).to(at::kFloat), y,
          torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
      loss_sum += loss.item<double>();
      (loss / image.size(0)).backward();
    }
    optimizer_.step();
    return loss_sum;
  }

 private:
  std::unique_ptr<reference::MixedNetwork> network_;
  torch::optim::SGD optimizer_;
  int micro_batches_;
  at::Device device_;
};

struct Contest {
  std::string name;
  std::string graph;
  std::size_t parts;
  int micro_batches;
  std::int64_t batch;
  double bar;
};

template <typename Network>
bool compare(const Contest& contest, const Setup& setup) {
  const std::int64_t batch = setup.gpu ? contest.batch : contest.micro_batches;
  const HarmonicGraph graph = zoo_graph(contest.graph);
  at::Tensor image = torch::randn({batch, 3, 224, 224});
  at::Tensor label = torch::randint(1000, {batch}, at::kLong);
  if (setup.gpu) image = image.pin_memory(), label = label.pin_memory();
  NamedTensors inputs;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), batch);
    inputs[node.name] = from_torch(is_floating(node.dtype) ? image : label).reshaped(shape);
  }
  const auto options = setup.options(contest.micro_batches);
  StageRow row(partition_graph(graph, contest.parts),
               std::vector<RuntimeOptions>(contest.parts, options));
  HandLoop hand(by_hand<Network>(row, setup), contest.micro_batches, setup.device());
  const double first = row.train(inputs).taps.loss_sum, expected = hand.train(image, label);
  if (!(std::abs(first - expected) <= (setup.gpu ? 2e-2 : 1e-4) * expected)) {
    std::printf("%s: the sides do not compute the same: loss %.6f and %.6f\n", contest.name.c_str(),
                first, expected);
    std::exit(1);  // a figure would mean nothing
  }
  const auto timed = [&](const std::function<void()>& step) {
    const bench::Cost cost = bench::measured([&] {
      for (int i = 0; i < setup.steps; ++i) step();
      if (setup.gpu) torch::cuda::synchronize();
    });
    return (setup.gpu ? cost.wall : cost.cpu) / setup.steps;
  };
  std::vector<double> ours, references, ratios;
  for (int round = 0; round < setup.rounds; ++round) {
    ours.push_back(timed([&] { row.train(inputs); }));
    references.push_back(timed([&] { hand.train(image, label); }));
    ratios.push_back(references.back() / ours.back());
  }
  const double ratio = bench::median(ratios), samples = static_cast<double>(batch);
  const char* kind = setup.gpu ? "bf16" : "float32 on the CPU (no GPU: not the figure)";
  return bench::row(format("{}, batch {}, {}", contest.name, batch, kind),
                    format("{:.1f} samples/s", samples / bench::median(ours)),
                    format("{:.1f} samples/s", samples / bench::median(references)), ratio,
                    setup.gpu ? format(">= {:.2f}", contest.bar) : "");
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--short") setup.rounds = setup.steps = 1;
    check |= std::string_view(argv[i]) == "--check";
  }
  setup.gpu = cuda_available();
  const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
  if (!setup.gpu && required != nullptr && std::string_view(required) == "1") {
    std::fprintf(stderr, "gpu_training: no GPU answers\n");
    return 1;
  }
  if (!setup.gpu) setup.rounds = setup.steps = 1;
  torch::manual_seed(1);
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  if (setup.gpu) {
    good &= compare<reference::Resnet50>(
        {"CycleRuntime over libtorch, ResNet-50", "resnet50", 1, 1, 64, 0.97}, setup);
    good &= compare<reference::VitBase>(
        {"CycleRuntime over libtorch, ViT-Base", "vit-base", 1, 1, 32, 0.97}, setup);
  }
  good &= compare<reference::Resnet50>(
      {"cut in two on one device over uncut libtorch, ResNet-50", "resnet50", 2, 2, 64, 0.95},
      setup);
  good &= compare<reference::VitBase>(
      {"cut in two on one device over uncut libtorch, ViT-Base", "vit-base", 2, 2, 32, 0.95},
      setup);
  return check && !good ? 1 : 0;
}
