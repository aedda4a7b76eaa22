// One graph across unlike devices: digits on the CPU and an OpenCL device, step by step like the
// CPU alone. What GPUs do is in src/runtime/gpu_test.cc and backend_contract_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <harmonics/harmonics.h>
#include <harmonics/runtime/opencl_devices.h>

namespace harmonics {
namespace {

class Accelerators : public testing::Test {
 protected:
  void SetUp() override {
    if (list_opencl_devices().empty()) GTEST_SKIP() << opencl_lacking({}, {});
  }

  static ProducerPtr csv(const std::string& columns, DType dtype, double scale) {
    CsvOptions options;
    options.columns = columns;
    options.dtype = dtype;
    options.scale = scale;
    const auto file =
        std::filesystem::path(std::getenv("HARMONICS_SOURCE_DIR")) / "examples/data/digits.csv";
    return std::make_shared<BatchProducer>(std::make_shared<CsvProducer>(file, options), 32);
  }
  template <typename Runtime>
  static void bind_digits(Runtime& runtime) {
    runtime.bindProducer("image", csv("0-63", DType::kFloat32, 1.0 / 16));
    runtime.bindProducer("label", csv("64", DType::kInt64, 1));
  }

  static HarmonicGraph digits() {
    const auto file =
        std::filesystem::path(std::getenv("HARMONICS_SOURCE_DIR")) / "examples/digits.harp";
    return load_harp(file);
  }

  static DeploymentDescriptor deploy(std::initializer_list<Backend> backends) {
    DeploymentDescriptor made;
    made.strict = true;
    for (const Backend backend : backends) made.partitions.push_back({backend});
    return made;
  }
};

TEST_F(Accelerators, CpuAndOpenClTrainDigitsLikeTheCpuAlone) {
  const HarmonicGraph graph = digits();
  RuntimeOptions options;
  options.optimizer.kind = OptimizerKind::kSgd;
  options.optimizer.learning_rate = 0.05;
  options.optimizer.momentum = 0.9;
  options.micro_batches = 2;
  CycleRuntime cpu(graph, options);
  const DeploymentDescriptor first = deploy({Backend::FPGA, Backend::CPU});
  const DeploymentDescriptor last = deploy({Backend::CPU, Backend::FPGA});
  DistributedScheduler a(auto_partition(graph, first), first, options);
  DistributedScheduler b(auto_partition(graph, last), last, options);
  bind_digits(cpu);
  bind_digits(a);
  bind_digits(b);
  for (int step = 0; step < 100; ++step) {
    const double expected = cpu.step().loss.value();
    ASSERT_NEAR(a.step().loss.value(), expected, 1e-4 * expected) << "step " << step;
    ASSERT_NEAR(b.step().loss.value(), expected, 1e-4 * expected) << "step " << step;
  }
  cpu.fit(5);
  a.fit(5);
  b.fit(5);
  const NamedProducers test = {{"image", csv("0-63", DType::kFloat32, 1.0 / 16)},
                               {"label", csv("64", DType::kInt64, 1)}};
  const double accuracy = cpu.evaluate(test).accuracy.value();
  EXPECT_GT(accuracy, 0.9);
  EXPECT_NEAR(a.evaluate(test).accuracy.value(), accuracy, 0.01);
  EXPECT_NEAR(b.evaluate(test).accuracy.value(), accuracy, 0.01);
}

TEST_F(Accelerators, AutoNeverTakesAnOpenClCpu) {
  for (const OpenClDevice& device : list_opencl_devices()) {
    if (device.type != OpenClType::kCpu) GTEST_SKIP() << "there is a real accelerator here";
  }
  EXPECT_NE(select_accelerator_backend(), Backend::FPGA);
}

}  // namespace
}  // namespace harmonics
