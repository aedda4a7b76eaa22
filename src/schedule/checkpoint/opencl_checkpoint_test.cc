// Checkpoints between an OpenCL device and the CPU.
#include <gtest/gtest.h>

#include <harmonics/base/random.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/schedule/checkpoint.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_schedule {
namespace {

RuntimeOptions options(Backend backend) {
  RuntimeOptions made;
  made.backend = backend;
  made.strict = true;
  return made;
}

NamedTensors digits(const HarmonicGraph& graph, std::uint64_t seed) {
  NamedTensors inputs;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), 16);
    Tensor tensor = Tensor::empty(shape, node.dtype);
    Random random(seed, node.name);
    if (node.dtype == DType::kInt64) {
      for (auto& value : tensor.mutable_values<std::int64_t>()) value = random.below(10);
    } else {
      for (auto& value : tensor.mutable_values<float>()) value = random.normal();
    }
    inputs[node.name] = tensor;
  }
  return inputs;
}

TEST(OpenClCheckpoint, MovesToTheCpuAndBack) {
  if (list_opencl_devices().empty()) GTEST_SKIP() << opencl_lacking({}, {});
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "opencl.safetensors";
  StageRow device({graph}, {options(Backend::FPGA)}), cpu({graph}, {options(Backend::CPU)});
  for (std::uint64_t step = 0; step < 3; ++step) {
    static_cast<void>(device.train(digits(graph, step)));
  }
  const auto follow = [&](StageRow& from, StageRow& to, std::uint64_t first) {
    save_checkpoint(path, from, {});
    static_cast<void>(load_checkpoint(path, to));
    EXPECT_EQ(weights_digest(from.parameters()), weights_digest(to.parameters()));
    for (std::uint64_t step = first; step < first + 3; ++step) {
      const double a = from.train(digits(graph, step)).taps.loss_sum;
      EXPECT_NEAR(to.train(digits(graph, step)).taps.loss_sum, a, 1e-4 * a) << step;
    }
  };
  follow(device, cpu, 3);
  follow(cpu, device, 6);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
