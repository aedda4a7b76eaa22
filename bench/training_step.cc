// CPU seconds of one training step (forward, backward, SGD with momentum) of CycleRuntime over the
// same network hand-written on libtorch, and the cost of one inference cycle of a tiny graph.
#include <torch/torch.h>

#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/tensor/torch.h>

#include "pieces/mlp_graph.h"
#include "reference/libtorch_networks.h"
#include "rounds.h"

namespace {

using namespace harmonics;
using bench::measured;
using bench::median;

double timed(const std::function<void()>& work) { return measured(work).cpu; }

RuntimeOptions sgd() {
  RuntimeOptions options;
  options.optimizer = {OptimizerKind::kSgd, 0.01, 0.9};
  return options;
}

struct Contest {
  const char* name;
  HarmonicGraph graph;
  torch::nn::Sequential net;
  Shape batch_shape;
  std::int64_t classes;
};

bool compare(Contest contest, int rounds) {
  auto& [name, graph, net, batch_shape, classes] = contest;
  const std::int64_t batch = batch_shape[0];
  const at::Tensor image = torch::randn(batch_shape);
  const at::Tensor label = torch::randint(classes, {batch});
  CycleRuntime runtime(graph, sgd());
  const bool label_column = graph.spec("label").shape.size() == 1;
  const NamedTensors inputs = {{"image", from_torch(image)},
                               {"label", from_torch(label_column ? label.unsqueeze(1) : label)}};
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const auto ours = [&] { runtime.row().train(inputs); };
  const auto reference = [&] {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(net->forward(image), label).backward();
    optimizer.step();
  };
  ours();
  reference();
  std::vector<double> our_times, reference_times, ratios;
  for (int i = 0; i < rounds; ++i) {
    our_times.push_back(timed(ours));
    reference_times.push_back(timed(reference));
    ratios.push_back(our_times.back() / reference_times.back());
  }
  const double ratio = median(ratios);
  std::printf("%s | %.2f ms | %.2f ms | %.3f | <= 1.05\n", name, 1e3 * median(our_times),
              1e3 * median(reference_times), ratio);
  return ratio <= 1.05;
}

// The same two tiny layers through CycleRuntime::infer and through bare libtorch calls.
bool cycle_overhead(int cycles) {
  GraphBuilder builder("tiny");
  builder.producer("x", Shape{4}).layer("a", "linear", {{"out", std::int64_t{4}}}, {"x"}, "relu");
  builder.layer("b", "linear", {{"out", std::int64_t{2}}}, {"a"}).consumer("y", "b");
  CycleRuntime runtime(builder.build());
  const at::Tensor x = torch::randn({1, 4});
  const NamedTensors inputs = {{"x", from_torch(x)}};
  NamedTensors weights = runtime.parameters();
  const at::Tensor aw = to_torch(weights.at("a.weight")), ab = to_torch(weights.at("a.bias"));
  const at::Tensor bw = to_torch(weights.at("b.weight")), bb = to_torch(weights.at("b.bias"));
  const auto ours = [&] {
    for (int i = 0; i < cycles; ++i) static_cast<void>(runtime.infer(inputs));
  };
  const auto reference = [&] {
    const c10::InferenceMode guard;
    for (int i = 0; i < cycles; ++i) at::linear(at::relu(at::linear(x, aw, ab)), bw, bb);
  };
  std::vector<double> our_times, reference_times, overheads;
  for (int round = 0; round < 7; ++round) {
    our_times.push_back(1e6 * timed(ours) / cycles);
    reference_times.push_back(1e6 * timed(reference) / cycles);
    overheads.push_back(our_times.back() - reference_times.back());
  }
  const double overhead = median(overheads);
  std::printf("inference cycle, tiny graph | %.2f us | %.2f us | overhead %.2f us | <= 20 us\n",
              median(our_times), median(reference_times), overhead);
  return overhead <= 20;
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  at::set_num_threads(1);
  torch::manual_seed(1);
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = cycle_overhead(short_run ? 50 : 5000);
  good &= compare({"training step, MLP 784-1024x7-10, batch 256",
                   bench::mlp_graph(),
                   reference::mlp(784, 1024, 7, 10),
                   {256, 784},
                   10},
                  short_run ? 1 : 15);
  good &= compare({"training step, ResNet-18, batch 8",
                   zoo_graph("resnet18"),
                   reference::resnet18(1000),
                   {8, 3, 224, 224},
                   1000},
                  short_run ? 1 : 9);
  return check && !good ? 1 : 0;
}
