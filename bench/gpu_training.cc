// Training throughput on a GPU, in bf16: a graph cut in two on one device, and CycleRuntime, each
// over the same network hand-written on libtorch with equal micro-batches; the uncut one also over
// PyTorch (reference/torch_peer.py) where python3 has it, and the cut one over the uncut. What
// torch.compile does takes minutes to compile: with --compile. --kernels says where the time of the
// runtime's steps goes instead. Without a GPU it runs a
// single small round on the CPU in float32, which measures nothing, has no bar, but keeps the
// program honest; HARMONICS_REQUIRE_GPU=1 makes that an error.
//
//   build-*/bench/gpu_training [--short] [--check] [--compile] [--kernels]
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/parallel_row.h>
#include <harmonics/tensor/torch.h>

#include "pieces/kernel_table.h"
#include "reference/libtorch_mixed_networks.h"
#include "reference/line_peer.h"
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

struct Outcome {
  bool good = true;
  double samples_per_s = 0;
};

NamedTensors made_inputs(const HarmonicGraph& graph, const at::Tensor& image,
                         const at::Tensor& label) {
  NamedTensors inputs;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), image.size(0));
    inputs[node.name] = from_torch(is_floating(node.dtype) ? image : label).reshaped(shape);
  }
  return inputs;
}

/// Parts work at the same time, as those of a DistributedScheduler do.
StageRow made_row(const HarmonicGraph& graph, std::size_t parts, const RuntimeOptions& options) {
  StageRow row(partition_graph(graph, parts), std::vector<RuntimeOptions>(parts, options));
  if (parts > 1) make_parallel(row, options.threads);
  return row;
}

template <typename Network>
Outcome compare(const Contest& contest, const Setup& setup) {
  const std::int64_t batch = setup.gpu ? contest.batch : contest.micro_batches;
  const HarmonicGraph graph = zoo_graph(contest.graph);
  at::Tensor image = torch::randn({batch, 3, 224, 224});
  at::Tensor label = torch::randint(1000, {batch}, at::kLong);
  if (setup.gpu) image = image.pin_memory(), label = label.pin_memory();
  const NamedTensors inputs = made_inputs(graph, image, label);
  const auto options = setup.options(contest.micro_batches);
  StageRow row = made_row(graph, contest.parts, options);
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
  const double rate = samples / bench::median(ours);
  return {bench::row(format("{}, batch {}, {}", contest.name, batch, kind),
                     format("{:.1f} samples/s", rate),
                     format("{:.1f} samples/s", samples / bench::median(references)), ratio,
                     setup.gpu ? format(">= {:.2f}", contest.bar) : ""),
          rate};
}

bool rate_row(const std::string& name, double ours, double reference, std::optional<double> bar) {
  return bench::row(name, format("{:.1f} samples/s", ours), format("{:.1f} samples/s", reference),
                    ours / reference, bar ? format(">= {:.2f}", *bar) : "");
}

void list_kernels(const Setup& setup, const char* network, std::size_t parts, std::int64_t batch) {
  const HarmonicGraph graph = zoo_graph(network);
  const auto options = setup.options(static_cast<int>(parts));
  StageRow row = made_row(graph, parts, options);
  const NamedTensors inputs = made_inputs(graph, torch::randn({batch, 3, 224, 224}).pin_memory(),
                                          torch::randint(1000, {batch}, at::kLong).pin_memory());
  for (int i = 0; i < 6; ++i) row.train(inputs);
  int left = setup.steps;
  bench::print_kernels(format("{} in {} parts, batch {}", network, parts, batch), setup.steps, [&] {
    row.train(inputs);
    if (--left == 0) torch::cuda::synchronize();
  });
}

/// What a user would take instead, and what we want of it.
struct Bars {
  double eager;
  double compile;
};

/// One network uncut, at one size of batch, beside PyTorch's own.
class Uncut {
 public:
  Uncut(const Setup& setup, bool compiles)
      : setup_(setup), compiles_(compiles), peer_({"python3", HARMONICS_TORCH_PEER}, {}) {}

  template <typename Network>
  Outcome run(const char* title, const char* graph, std::int64_t batch, Bars bars) {
    Outcome outcome = compare<Network>(
        {format("CycleRuntime over libtorch, {}", title), graph, 1, 1, batch, 0.97}, setup_);
    for (const auto& [mode, bar] : {std::pair{"eager", bars.eager}, {"compile", bars.compile}}) {
      if (!compiles_ && std::string_view(mode) == "compile") continue;
      const std::string name =
          format("CycleRuntime over PyTorch, {}, {}, batch {}", mode, title, batch);
      if (const auto theirs = peer_.ask(format("{} {} {}", graph, batch, mode))) {
        outcome.good &= rate_row(name, outcome.samples_per_s, std::stod(*theirs), bar);
      } else {
        std::printf("%s: %s\n", name.c_str(), peer_.failure().c_str());
      }
    }
    return outcome;
  }

  /// Answers instead of steps.
  void infer(const char* title, const char* graph, std::int64_t batch) {
    const HarmonicGraph network = zoo_graph(graph);
    StageRow row = made_row(network, 1, setup_.options(1));
    const NamedTensors inputs =
        made_inputs(network, torch::randn({batch, 3, 224, 224}).pin_memory(),
                    torch::randint(1000, {batch}, at::kLong).pin_memory());
    for (int i = 0; i < 6; ++i) static_cast<void>(row.infer(inputs));
    std::vector<double> seconds;
    for (int round = 0; round < setup_.rounds; ++round) {
      seconds.push_back(bench::measured([&] {
                          for (int i = 0; i < setup_.steps; ++i)
                            static_cast<void>(row.infer(inputs));
                        }).wall /
                        setup_.steps);
    }
    const double rate = static_cast<double>(batch) / bench::median(seconds);
    for (const char* mode : {"eager", "compile"}) {
      if (!compiles_ && std::string_view(mode) == "compile") continue;
      const std::string name =
          format("inference over PyTorch, {}, {}, batch {}", mode, title, batch);
      if (const auto theirs = peer_.ask(format("{} {} {} infer", graph, batch, mode))) {
        static_cast<void>(rate_row(name, rate, std::stod(*theirs), std::nullopt));
      } else {
        std::printf("%s: %s\n", name.c_str(), peer_.failure().c_str());
      }
    }
  }

 private:
  Setup setup_;
  bool compiles_;
  bench::LinePeer peer_;
};

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  const bool check = bench::has_flag(argc, argv, "--check");
  if (bench::has_flag(argc, argv, "--short")) setup.rounds = setup.steps = 1;
  setup.gpu = cuda_available();
  const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
  if (!setup.gpu && required != nullptr && std::string_view(required) == "1") {
    std::fprintf(stderr, "gpu_training: no GPU answers\n");
    return 1;
  }
  if (!setup.gpu) setup.rounds = setup.steps = 1;
  torch::manual_seed(1);
  if (setup.gpu && bench::has_flag(argc, argv, "--kernels")) {
    for (const std::int64_t batch : {64, 256}) list_kernels(setup, "resnet50", 1, batch);
    for (const std::int64_t batch : {32, 128}) list_kernels(setup, "vit-base", 1, batch);
    list_kernels(setup, "resnet50", 2, 64);
    return 0;
  }
  std::printf("name | ours | reference | ratio | bar\n");
  const auto cut = [&]<typename Network>(const char* title, const char* graph, std::int64_t batch) {
    return compare<Network>({format("cut in two on one device over uncut libtorch, {}", title),
                             graph, 2, 2, batch, 0.95},
                            setup);
  };
  const Outcome resnet = cut.operator()<reference::Resnet50>("ResNet-50", "resnet50", 64);
  const Outcome vit = cut.operator()<reference::VitBase>("ViT-Base", "vit-base", 32);
  bool good = resnet.good && vit.good;
  if (setup.gpu) {
    Uncut uncut(setup, bench::has_flag(argc, argv, "--compile"));
    const Outcome whole_resnet =
        uncut.run<reference::Resnet50>("ResNet-50", "resnet50", 64, {1.45, 0.80});
    const Outcome whole_vit =
        uncut.run<reference::VitBase>("ViT-Base", "vit-base", 32, {1.65, 0.85});
    good &= whole_resnet.good && whole_vit.good;
    good &= uncut.run<reference::Resnet50>("ResNet-50", "resnet50", 256, {1.0, 0.75}).good;
    good &= uncut.run<reference::VitBase>("ViT-Base", "vit-base", 128, {1.0, 0.85}).good;
    for (const std::int64_t batch : {1, 16}) {
      uncut.infer("ResNet-50", "resnet50", batch);
      uncut.infer("ViT-Base", "vit-base", batch);
    }
    good &= rate_row("cut in two over our own uncut, ResNet-50, batch 64", resnet.samples_per_s,
                     whole_resnet.samples_per_s, 0.85);
    good &= rate_row("cut in two over our own uncut, ViT-Base, batch 32", vit.samples_per_s,
                     whole_vit.samples_per_s, 0.85);
  }
  return check && !good ? 1 : 0;
}
