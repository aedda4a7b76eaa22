// The same answers on a GPU, with two lanes and pinned rings. Skipped without one, unless
// HARMONICS_REQUIRE_GPU=1.
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/script.h>

#include <cstdlib>
#include <filesystem>

#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/torch_work.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/tensor/torch.h>

#include <temporary_folder_testing.h>

#include "torch_lane.h"

namespace harmonics::inline in_dispatch {
namespace {

class DispatchGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) {
      const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
      if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU answers";
      GTEST_SKIP() << "no GPU answers";
    }
  }
  std::filesystem::path script(const std::string& forward) {
    torch::jit::Module module("m");
    module.define(forward);
    const std::filesystem::path file = folder_ / "m.pt";
    module.save(file.string());
    return file;
  }
  TemporaryFolder folder_;
};

constexpr const char* kModel = R"(
def forward(self, x, c):
  return x * c + torch.tanh(x)
)";

TEST_F(DispatchGpu, AScriptBesideTheCpuIsTheScript) {
  const at::Tensor x = torch::rand({200'000, 64}), c = torch::rand({1, 64});
  TensorMapLoader loader({{"x", from_torch(x)}, {"c", from_torch(c)}});
  AdaptiveScheduler scheduler(std::vector<std::string>{"cuda:0", "cpu"});
  auto trace = std::make_shared<DispatchTrace>();
  TorchDispatcher dispatcher(scheduler,
                             script_functions({.file = script(kModel), .inputs = {"x", "c"}}),
                             {.lanes = 3, .trace = trace});
  for (int round = 0; round < 3; ++round) {
    loader.rewind();
    const TensorMap out = dispatcher.run(loader);
    EXPECT_TRUE(at::allclose(to_torch(out.at("output")), x * c + torch::tanh(x), 1e-5, 1e-6));
  }
  EXPECT_EQ(trace->lanes().size(), 4U) << "three streams and the CPU";
}

TEST_F(DispatchGpu, TheRingCarriesTensorsOfAnySize) {
  init_torch_lane(parse_work_device("cuda:0"));
  for (const std::int64_t size : {1, 1000, 3'000'000, 20'000'001}) {
    const at::Tensor x = torch::rand({size});
    DeviceTensors there = copy_in({{"x", from_torch(x)}}, parse_work_device("cuda:0"));
    EXPECT_TRUE(there.held->tensors.at("x").is_cuda());
    EXPECT_TRUE(at::equal(to_torch(copy_out(std::move(there)).at("x")), x)) << size;
  }
}

TEST_F(DispatchGpu, OutOfMemoryHalvesUntilItFits) {
  const LogCapture log;
  const at::Tensor x = torch::rand({1'000'000, 1});
  // 40,000 numbers in between for each row: 160 GB for all of them.
  const std::filesystem::path file = script(R"(
def forward(self, x):
  return x.expand(x.size(0), 40000).contiguous().sum(1, True) / 40000
)");
  TensorMapLoader loader({{"x", from_torch(x)}});
  AdaptiveScheduler scheduler(AdaptiveConfig{
      .devices = {"cuda:0"}, .efficiency = 0.99999999, .least_time = std::chrono::seconds(1000)});
  TorchDispatcher dispatcher(scheduler, script_functions({.file = file}), {.lanes = 1});
  for (int round = 0; round < 4; ++round) {
    loader.rewind();
    EXPECT_TRUE(at::allclose(to_torch(dispatcher.run(loader).at("output")), x, 1e-3, 1e-4));
  }
}

TEST_F(DispatchGpu, DerivativesAndGraphs) {
  const at::Tensor x = torch::rand({5000, 4}), c = torch::rand({1, 4});
  TensorMapLoader loader({{"x", from_torch(x)}, {"c", from_torch(c)}});
  SimpleScheduler scheduler("cuda:0", 512, 1024);
  TorchDerivativeDispatcher derivatives(
      scheduler, script_derivative_functions({.file = script(kModel), .inputs = {"x", "c"}}));
  const ValuesAndDerivatives out = derivatives.run(loader);
  const at::Tensor diagonal = to_torch(out.derivatives.at("output").at("x")).diagonal(0, 1, 2);
  EXPECT_TRUE(at::allclose(diagonal, c + 1 - torch::tanh(x).pow(2), 1e-4, 1e-5));

  const HarmonicGraph graph = zoo_graph("lenet");
  const std::string producer = graph.producers().front().name;
  Shape shape = graph.spec(producer).shape;
  shape.insert(shape.begin(), 2000);
  const Tensor rows = from_torch(torch::rand(shape));
  ValueDispatcher dispatcher(scheduler, runtime_functions({.graph = graph, .seed = 4}));
  TensorMapLoader graph_loader({{producer, rows}});
  const TensorMap got = dispatcher.run(graph_loader);
  CycleRuntime runtime(graph, {.seed = 4});
  for (const auto& [name, wanted] : runtime.infer({{producer, rows}})) {
    EXPECT_TRUE(at::allclose(to_torch(got.at(name)), to_torch(wanted), 1e-3, 1e-4)) << name;
  }
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
