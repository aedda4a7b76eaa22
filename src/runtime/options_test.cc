// Options of a stage are what was asked for, or an Error says what is not here.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/log.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/runtime/stage.h>

#include <error_testing.h>

namespace harmonics::inline in_runtime {
namespace {

TEST(StageOptions, ThreadsAndDeterminismAreWhatWasAskedFor) {
  RuntimeOptions options;
  for (const int threads : {2, 1}) {
    options.threads = threads;
    options.deterministic = threads == 1;
    const Stage stage(zoo_graph("digits-mlp"), options);
    EXPECT_EQ(at::get_num_threads(), threads);
    EXPECT_EQ(at::globalContext().deterministicAlgorithms(), options.deterministic);
  }
}

TEST(Backends, OneThatIsNotHereIsTheCpuWithOneWarningOrAnErrorUnderStrict) {
  RuntimeOptions options;
  options.backend = Backend::GPU;
  options.device_index = 1000;
  {
    const LogCapture log;
    EXPECT_EQ(resolve_backend(options).backend, Backend::CPU);
    EXPECT_THAT(log.lines(), ::testing::ElementsAre(::testing::HasSubstr("no GPU number 1000")));
  }
  options.strict = true;
  expect_error(ErrorCode::kFailedPrecondition, "no GPU number 1000",
               [&] { (void)resolve_backend(options); });
  options.backend = Backend::FPGA;
  options.fpga_device_index = 1000;
  expect_error(opencl_is_built() ? ErrorCode::kFailedPrecondition : ErrorCode::kUnimplemented,
               "OpenCL", [&] { (void)resolve_backend(options); });
}

TEST(LearningRate, Schedules) {
  LearningRateSchedule schedule;
  EXPECT_EQ(schedule.at(1000), 1.0);
  schedule = {ScheduleKind::kStep, 0, 10, 0.5};
  EXPECT_EQ(schedule.at(9), 1.0);
  EXPECT_EQ(schedule.at(20), 0.25);
  schedule = {ScheduleKind::kCosine, 4, 0, 0, 104, 0.1};
  EXPECT_EQ(schedule.at(0), 0.25);
  EXPECT_EQ(schedule.at(4), 1.0);
  EXPECT_NEAR(schedule.at(54), 0.55, 1e-12);
  EXPECT_NEAR(schedule.at(104), 0.1, 1e-12);
  EXPECT_NEAR(schedule.at(1000), 0.1, 1e-12);
}

}  // namespace
}  // namespace harmonics::inline in_runtime
