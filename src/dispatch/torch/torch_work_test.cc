// TorchScript modules and graphs under a dispatcher, on the CPU; those on a GPU are torch_gpu_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/cuda.h>
#include <torch/script.h>

#include <filesystem>
#include <fstream>

#include <harmonics/base/file.h>
#include <harmonics/dispatch/adaptive_scheduler.h>
#include <harmonics/dispatch/static_hybrid_scheduler.h>
#include <harmonics/dispatch/torch_work.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/tensor/torch.h>

#include <temporary_folder_testing.h>

#include "scheduler_testing.h"
#include "torch_lane.h"

namespace harmonics::inline in_dispatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TorchWork : public ::testing::Test {
 protected:
  // A module whose forward has this text.
  std::filesystem::path script(const std::string& forward,
                               const torch::jit::ResolverPtr& names = nullptr) {
    torch::jit::Module module("m");
    module.define(forward, names);
    const std::filesystem::path file = folder_ / format("m{}.pt", ++count_);
    module.save(file.string());
    return file;
  }
  TemporaryFolder folder_;
  int count_ = 0;
};

constexpr const char* kScaled = R"(
def forward(self, x, c):
  return x * c + torch.sin(x)
)";
constexpr const char* kTwo = R"(
def forward(self, x, y):
  return torch.stack([x[:, 0] * y[:, 0], x[:, 1] * x[:, 1]], 1), x.sum(1, True)
)";

TensorMap inputs(std::int64_t rows) {
  torch::manual_seed(3);
  return {{"c", from_torch(torch::rand({1, 6}))}, {"x", from_torch(torch::rand({rows, 6}))}};
}

TEST_F(TorchWork, AScriptOnSeveralDevicesIsTheScript) {
  const std::filesystem::path file = script(kScaled);
  StaticHybridScheduler scheduler({"cpu", "emulated:1e6,0"}, {23, 17}, {55, 18}, {1, 2});
  TorchDispatcher dispatcher(scheduler, script_functions({.file = file, .inputs = {"x", "c"}}));
  const TensorMap in = inputs(500);
  TensorMapLoader loader(in);
  const TensorMap out = dispatcher.run(loader);
  const at::Tensor x = to_torch(in.at("x"));
  const at::Tensor wanted = x * to_torch(in.at("c")) + torch::sin(x);
  EXPECT_TRUE(at::allclose(to_torch(out.at("output")), wanted));
}

TEST_F(TorchWork, DerivativesAreThoseOfEachRow) {
  SimpleScheduler scheduler("cpu", 7);
  TorchDerivativeDispatcher dispatcher(
      scheduler, script_derivative_functions(
                     {.file = script(kTwo), .inputs = {"x", "y"}, .outputs = {"p", "s"}}));
  torch::manual_seed(5);
  const at::Tensor x = torch::rand({20, 2}), y = torch::rand({1, 1});
  TensorMapLoader loader({{"x", from_torch(x)}, {"y", from_torch(y)}});
  const ValuesAndDerivatives out = dispatcher.run(loader);
  const at::Tensor by_x = to_torch(out.derivatives.at("p").at("x"));
  ASSERT_EQ(by_x.sizes(), (std::vector<std::int64_t>{20, 2, 2}));
  EXPECT_TRUE(at::allclose(by_x.select(1, 0).select(1, 0), y.expand({20, 1}).select(1, 0)));
  EXPECT_TRUE(at::allclose(by_x.select(1, 0).select(1, 1), torch::zeros(20)));
  EXPECT_TRUE(at::allclose(by_x.select(1, 1).select(1, 1), 2 * x.select(1, 1)));
  const at::Tensor by_y = to_torch(out.derivatives.at("p").at("y"));
  ASSERT_EQ(by_y.sizes(), (std::vector<std::int64_t>{20, 2, 1}));
  EXPECT_TRUE(at::allclose(by_y.select(1, 0).select(1, 0), x.select(1, 0)));
  EXPECT_TRUE(at::allclose(to_torch(out.derivatives.at("s").at("y")), torch::zeros({20, 1, 1})));
  EXPECT_TRUE(at::allclose(to_torch(out.values.at("s")), x.sum(1, true)));
}

TEST_F(TorchWork, AGraphOnEveryLaneGivesTheRuntimesOutputs) {
  const HarmonicGraph graph = zoo_graph("lenet");
  CycleRuntime runtime(graph, {.seed = 4, .threads = 1});
  const std::string producer = graph.producers().front().name;
  Shape shape = graph.spec(producer).shape;
  shape.insert(shape.begin(), 300);
  torch::manual_seed(1);
  const Tensor rows = from_torch(torch::rand(shape));
  StaticHybridScheduler scheduler({"cpu", "emulated:1e6,0"}, {100});
  ValueDispatcher dispatcher(scheduler, runtime_functions({.graph = graph, .seed = 4}),
                             {.cores = 1});
  TensorMapLoader loader({{producer, rows}});
  const TensorMap out = dispatcher.run(loader);
  for (const auto& [name, wanted] : runtime.infer({{producer, rows}})) {
    EXPECT_TRUE(at::allclose(to_torch(out.at(name)), to_torch(wanted), 1e-4, 1e-5)) << name;
  }
}

/// Lets a script call the operators of the name space `newer`.
struct NewerOperators : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction&,
                                                         const torch::jit::SourceRange&) override {
    if (name != "newer") return nullptr;
    return std::make_shared<torch::jit::BuiltinModule>(name);
  }
};

// As a module of a newer release does, it uses an operator that is not there when it is loaded;
// what libtorch throws then begins with an empty line.
TEST_F(TorchWork, AModuleWithAnUnknownOperatorSaysWhatToDo) {
  std::filesystem::path file;
  {
    const torch::RegisterOperators newer("newer::twice(Tensor x) -> Tensor",
                                         [](const at::Tensor& x) { return 2 * x; });
    file = script("def forward(self, x):\n  return newer.twice(x)\n",
                  std::make_shared<NewerOperators>());
  }
  SimpleScheduler cpu("cpu", 10);
  EXPECT_THAT(error_of([&] { TorchDispatcher(cpu, script_functions({.file = file})); }),
              AllOf(HasSubstr("no TorchScript module that can be loaded: Unknown builtin op"),
                    HasSubstr("newer::twice"), HasSubstr("save the module with that release")));
}

TEST_F(TorchWork, ErrorsSayWhatIsWrong) {
  SimpleScheduler cpu("cpu", 10);
  const auto make = [](WorkScheduler& scheduler, const ScriptModel& model) {
    return error_of([&] { TorchDispatcher(scheduler, script_functions(model)); });
  };
  EXPECT_THAT(make(cpu, {.file = folder_ / "none.pt"}), HasSubstr("there is no file"));
  std::ofstream(folder_ / "bad.pt") << "no module";
  EXPECT_THAT(make(cpu, {.file = folder_ / "bad.pt"}), HasSubstr("no TorchScript module"));
  SimpleScheduler missing("cuda:1000", 10);
  if (!torch::cuda::is_available()) {
    EXPECT_THAT(make(missing, {.file = script(kScaled)}),
                AllOf(HasSubstr("failed_precondition: device 'cuda:1000' is not here"),
                      HasSubstr("sees 0")));
  }
  TorchDispatcher unnamed(cpu, script_functions({.file = script(kScaled), .inputs = {"x", "z"}}));
  TensorMapLoader loader(inputs(20));
  EXPECT_THAT(error_of([&] { (void)unnamed.run(loader); }), HasSubstr("takes 'z'"));
  TorchDispatcher wrong(cpu, script_functions({.file = script(R"(
def forward(self, x, y):
  return torch.mm(x, y)
)")}));
  EXPECT_THAT(error_of([&] { (void)wrong.run(loader); }), HasSubstr("libtorch: "));
}

TEST_F(TorchWork, MemoryAndDeviceFailuresAreToldApart) {
  const auto kind = [](const std::string& text) {
    try {
      with_torch_errors([&] { TORCH_CHECK(false, text); });
    } catch (...) {
      return failure_kind(std::current_exception());
    }
    return FailureKind::kWork;
  };
  EXPECT_EQ(kind("CUDA out of memory. Tried to allocate 2 GiB"), FailureKind::kOutOfMemory);
  EXPECT_EQ(kind("CUDA error: out of memory"), FailureKind::kOutOfMemory);
  EXPECT_EQ(kind("CUDA error: an illegal memory access was encountered"), FailureKind::kDeviceLost);
  EXPECT_EQ(kind("mat1 and mat2 shapes cannot be multiplied"), FailureKind::kWork);
}

TEST_F(TorchWork, TheRingCarriesTensorsOfAnySize) {
  PinnedRing up(at::kCPU, 64, 3), down(at::kCPU, 64, 3);
  for (const std::int64_t size : {1, 16, 17, 48, 49, 1000}) {
    const at::Tensor from = torch::rand({size});
    const at::Tensor there = torch::zeros({size}), back = torch::zeros({size});
    up.upload(from, there, std::nullopt);
    down.download(there, back, std::nullopt);
    EXPECT_TRUE(at::equal(from, back)) << size;
  }
}

}  // namespace
}  // namespace harmonics::inline in_dispatch
