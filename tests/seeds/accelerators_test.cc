// One graph across unlike devices: digits on the CPU, an OpenCL device and a GPU, step by step like
// the CPU alone. HARMONICS_REQUIRE_GPU=1 makes the lack of a GPU a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <harmonics/harmonics.h>
#include <harmonics/runtime/opencl_devices.h>

#include <tree_testing.h>

namespace harmonics {
namespace {

class Accelerators : public testing::Test {
 protected:
  static ProducerPtr csv(const std::string& columns, DType dtype, double scale) {
    CsvOptions options;
    options.columns = columns;
    options.dtype = dtype;
    options.scale = scale;
    const auto file = source_folder() / "examples/data/digits.csv";
    return std::make_shared<BatchProducer>(std::make_shared<CsvProducer>(file, options), 32);
  }
  template <typename Runtime>
  static void bind_digits(Runtime& runtime) {
    runtime.bindProducer("image", csv("0-63", DType::kFloat32, 1.0 / 16));
    runtime.bindProducer("label", csv("64", DType::kInt64, 1));
  }

  static HarmonicGraph digits() {
    const auto file = source_folder() / "examples/digits.harp";
    return load_harp(file);
  }

  static DeploymentDescriptor deploy(const std::vector<Backend>& backends) {
    DeploymentDescriptor made;
    made.strict = true;
    for (const Backend backend : backends) made.partitions.push_back({backend});
    return made;
  }
};

// Why these backends cannot all compute here, or nothing.
std::string lacking(const std::vector<Backend>& backends) {
  for (const Backend backend : backends) {
    if (backend == Backend::GPU && !cuda_available()) return "no GPU answers";
    if (backend == Backend::FPGA && list_opencl_devices().empty()) return opencl_lacking({}, {});
  }
  return "";
}

class AcceleratorParts : public Accelerators,
                         public testing::WithParamInterface<std::vector<Backend>> {
 protected:
  void SetUp() override {
    const std::string why = lacking(GetParam());
    if (why.empty()) return;
    const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
    const bool gpu = std::count(GetParam().begin(), GetParam().end(), Backend::GPU) > 0;
    if (gpu && !cuda_available() && required != nullptr && std::string_view(required) == "1") {
      FAIL() << why;
    }
    GTEST_SKIP() << why;
  }
};

TEST_P(AcceleratorParts, TrainDigitsLikeTheCpuAlone) {
  const HarmonicGraph graph = digits();
  RuntimeOptions options;
  options.optimizer.kind = OptimizerKind::kSgd;
  options.optimizer.learning_rate = 0.05;
  options.optimizer.momentum = 0.9;
  options.micro_batches = 2;
  CycleRuntime cpu(graph, options);
  const DeploymentDescriptor devices = deploy(GetParam());
  DistributedScheduler parts(auto_partition(graph, devices), devices, options);
  bind_digits(cpu);
  bind_digits(parts);
  for (int step = 0; step < 100; ++step) {
    const double expected = cpu.step().loss.value();
    ASSERT_NEAR(parts.step().loss.value(), expected, 1e-4 * expected) << "step " << step;
  }
  cpu.fit(5);
  parts.fit(5);
  const NamedProducers test = {{"image", csv("0-63", DType::kFloat32, 1.0 / 16)},
                               {"label", csv("64", DType::kInt64, 1)}};
  const double accuracy = cpu.evaluate(test).accuracy.value();
  EXPECT_GT(accuracy, 0.9);
  EXPECT_NEAR(parts.evaluate(test).accuracy.value(), accuracy, 0.01);
}

std::string order_name(const testing::TestParamInfo<std::vector<Backend>>& info) {
  std::string name;
  for (const Backend backend : info.param) {
    name += backend == Backend::GPU ? "Gpu" : backend == Backend::FPGA ? "OpenCl" : "Cpu";
  }
  return name;
}

// Which part runs where matters: both orders.
INSTANTIATE_TEST_SUITE_P(Without, AcceleratorParts,
                         testing::Values(std::vector{Backend::FPGA, Backend::CPU},
                                         std::vector{Backend::CPU, Backend::FPGA}),
                         order_name);
INSTANTIATE_TEST_SUITE_P(WithGpu, AcceleratorParts,
                         testing::Values(std::vector{Backend::GPU, Backend::CPU},
                                         std::vector{Backend::CPU, Backend::GPU},
                                         std::vector{Backend::GPU, Backend::FPGA, Backend::CPU}),
                         order_name);

TEST_F(Accelerators, AutoNeverTakesAnOpenClCpu) {
  if (list_opencl_devices().empty()) GTEST_SKIP() << opencl_lacking({}, {});
  for (const OpenClDevice& device : list_opencl_devices()) {
    if (device.type != OpenClType::kCpu) GTEST_SKIP() << "there is a real accelerator here";
  }
  EXPECT_NE(select_accelerator_backend(), Backend::FPGA);
}

}  // namespace
}  // namespace harmonics
