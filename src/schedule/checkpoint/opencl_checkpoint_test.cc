// Checkpoints between an OpenCL device and the CPU.
#include <gtest/gtest.h>

#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/schedule/checkpoint.h>

#include <temporary_folder_testing.h>

#include "made_batch_testing.h"

namespace harmonics::inline in_schedule {
namespace {

RuntimeOptions options(Backend backend) {
  RuntimeOptions made;
  made.backend = backend;
  made.strict = true;
  return made;
}

TEST(OpenClCheckpoint, MovesToTheCpuAndBack) {
  if (list_opencl_devices().empty()) GTEST_SKIP() << opencl_lacking({}, {});
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "opencl.safetensors";
  StageRow device({graph}, {options(Backend::FPGA)}), cpu({graph}, {options(Backend::CPU)});
  for (std::uint64_t step = 0; step < 3; ++step) {
    static_cast<void>(device.train(made_batch(graph, step)));
  }
  const auto follow = [&](StageRow& from, StageRow& to, std::uint64_t first) {
    save_checkpoint(path, from, {});
    static_cast<void>(load_checkpoint(path, to));
    EXPECT_EQ(weights_digest(from.parameters()), weights_digest(to.parameters()));
    for (std::uint64_t step = first; step < first + 3; ++step) {
      const double a = from.train(made_batch(graph, step)).taps.loss_sum;
      EXPECT_NEAR(to.train(made_batch(graph, step)).taps.loss_sum, a, 1e-4 * a) << step;
    }
  };
  follow(device, cpu, 3);
  follow(cpu, device, 6);
}

}  // namespace
}  // namespace harmonics::inline in_schedule
