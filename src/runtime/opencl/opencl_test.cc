// What is particular to the OpenCL backend: which device it takes, what it says when it cannot, its
// cache of programs, and training beside the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/runtime/stage_backend.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "kernels/program_cache.h"
#include "plain_row_testing.h"

namespace harmonics::inline in_runtime {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<OpenClDevice> four_devices() {
  return {{"PoCL", 0, "pthread", "3.1", OpenClType::kCpu, 1},
          {"Vendor A", 1, "Big Card", "7", OpenClType::kGpu, 1},
          {"Vendor A", 1, "Small Card", "7", OpenClType::kGpu, 1},
          {"Vendor B", 2, "Alveo", "2", OpenClType::kAccelerator, 1}};
}

TEST(OpenClChoice, TheIndexWinsThenTheVariablesThenAcceleratorsThenTheFirst) {
  const auto devices = four_devices();
  EXPECT_EQ(choose_opencl_device(devices, {2, "vendor b", "0"}), 2u);
  EXPECT_EQ(choose_opencl_device(devices, {.platform = "vendor a"}), 1u);
  EXPECT_EQ(choose_opencl_device(devices, {.platform = "1", .device = "1"}), 2u);
  EXPECT_EQ(choose_opencl_device(devices, {.device = "small"}), 2u);
  EXPECT_EQ(choose_opencl_device(devices, {.device = "0"}), 0u);
  EXPECT_EQ(choose_opencl_device(devices, {}), 3u) << "an accelerator";
  EXPECT_EQ(choose_opencl_device(std::span(devices).first(3), {}), 0u) << "the first";
}

TEST(OpenClChoice, WhatDoesNotFitIsNothing) {
  const auto devices = four_devices();
  EXPECT_EQ(choose_opencl_device(devices, {4}), std::nullopt);
  EXPECT_EQ(choose_opencl_device(devices, {.platform = "7"}), std::nullopt);
  EXPECT_EQ(choose_opencl_device(devices, {.platform = "pocl", .device = "alveo"}), std::nullopt);
  EXPECT_EQ(choose_opencl_device({}, {}), std::nullopt);
}

TEST(OpenClChoice, AutoNeverTakesACpu) {
  const auto devices = four_devices();
  EXPECT_EQ(choose_opencl_accelerator(devices, {}), 3u);
  EXPECT_EQ(choose_opencl_accelerator(std::span(devices).first(3), {}), 1u);
  EXPECT_EQ(choose_opencl_accelerator(std::span(devices).first(1), {}), std::nullopt);
  EXPECT_EQ(choose_opencl_accelerator(devices, {.platform = "pocl"}), std::nullopt);
  EXPECT_EQ(choose_opencl_accelerator(devices, {0}), std::nullopt);
}

class CacheTest : public testing::Test {
 protected:
  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_ / "cache";  // not there yet
};

TEST_F(CacheTest, KeepsWholeProgramsAndForgetsDamagedOnes) {
  const ProgramCache cache(folder_);
  const std::string key = ProgramCache::key(std::vector<std::string>{"source", "driver 1"});
  EXPECT_NE(key, ProgramCache::key(std::vector<std::string>{"source", "driver 2"}));
  EXPECT_NE(key, ProgramCache::key(std::vector<std::string>{"sourced", "river 1"}));
  EXPECT_EQ(cache.load(key), std::nullopt);
  cache.store(key, "the binary");
  EXPECT_EQ(cache.load(key), "the binary");
  const std::filesystem::path file = folder_ / (key + ".bin");
  const std::string whole = read_text_file(file);
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    write_text_file(file, whole.substr(0, length));
    EXPECT_EQ(cache.load(key), std::nullopt) << length;
  }
  for (std::size_t at = 0; at < whole.size(); at += 5) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    write_text_file(file, flipped);
    EXPECT_EQ(cache.load(key), std::nullopt) << at;
  }
  cache.store(key, "another");
  EXPECT_EQ(cache.load(key), "another");
  cache.remove(key);
  EXPECT_EQ(cache.load(key), std::nullopt);
}

TEST_F(CacheTest, ManyWritersLeaveOneWholeFile) {
  const std::string key(64, 'a');
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] {
      const ProgramCache cache(folder_);
      for (int round = 0; round < 25; ++round) {
        cache.store(key, std::string(5000, static_cast<char>('a' + i)));
        const auto loaded = cache.load(key);
        EXPECT_TRUE(!loaded || *loaded == std::string(5000, loaded->front()));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(ProgramCache(folder_).load(key).has_value());
}

TEST_F(CacheTest, ReachesItsCeiling) {
  const ProgramCache cache(folder_);
  for (std::size_t i = 0; i < kMaxCachedPrograms + 5; ++i) {
    cache.store(ProgramCache::key(std::vector<std::string>{std::to_string(i)}), "x");
  }
  EXPECT_EQ(list_folder(folder_).size(), kMaxCachedPrograms);
}

TEST_F(CacheTest, WithoutAPlaceItIsSilent) {
  const ProgramCache off({});
  off.store("k", "v");
  EXPECT_EQ(off.load("k"), std::nullopt);
  write_text_file(folder_, "in the way");
  const ProgramCache blocked(folder_);
  blocked.store("k", "v");
  EXPECT_EQ(blocked.load("k"), std::nullopt);
}

class OpenClTest : public testing::Test {
 protected:
  void SetUp() override {
    if (list_opencl_devices().empty()) GTEST_SKIP() << opencl_lacking({}, {});
  }

  static RuntimeOptions options(Backend backend) {
    RuntimeOptions made;
    made.backend = backend;
    made.strict = true;
    return made;
  }

  static NamedTensors batch(const HarmonicGraph& graph, std::uint64_t seed,
                            std::int64_t rows = 16) {
    NamedTensors inputs;
    for (const ProducerNode& node : graph.producers()) {
      Shape shape = *node.shape;
      shape.insert(shape.begin(), rows);
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
};

TEST_F(OpenClTest, SaysWhereItComputes) {
  const Stage stage(zoo_graph("digits-mlp"), options(Backend::FPGA));
  EXPECT_THAT(stage->place(), HasSubstr("opencl:"));
  EXPECT_EQ(Stage(zoo_graph("digits-mlp"), {})->place(), "cpu");
}

TEST_F(OpenClTest, ADeviceThatIsNotThereIsTheCpuWithOneWarning) {
  RuntimeOptions wish = options(Backend::FPGA);
  wish.fpga_device_index = 250;
  expect_error(ErrorCode::kFailedPrecondition, "asked for OpenCL device 250",
               [&] { (void)Stage(zoo_graph("digits-mlp"), wish); });
  wish.strict = false;
  const LogCapture log;
  EXPECT_EQ(Stage(zoo_graph("digits-mlp"), wish)->place(), "cpu");
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("asked for OpenCL device 250")));
}

TEST_F(OpenClTest, OneWarningNamesWhatRunsOnTheCpu) {
  const LogCapture log;
  const Stage stage(zoo_graph("transformer-small"), options(Backend::FPGA));
  EXPECT_THAT(stage->fallbacks(), Contains("attention"));
  std::size_t said = 0;
  for (const std::string& line : log.lines()) {
    said += line.find("no operation 'attention'") != std::string::npos;
  }
  EXPECT_EQ(said, 1u);
}

TEST_F(OpenClTest, NamedAxesTiesAndFrozenLayersAreLeftToTheCpu) {
  const RuntimeOptions wish = options(Backend::FPGA);
  const std::string axis = "axis T <= 8; producer x {T, 4}; layer h linear(3); cycle { x -> h; }";
  expect_error(ErrorCode::kUnimplemented, "follows the axis T",
               [&] { (void)Stage(parse_harp(axis), wish); });
  EXPECT_NO_THROW((void)Stage(parse_harp(axis).with_fixed_axes({{"T", 8}}), wish));
  const std::string tie =
      "producer x {4}; layer a linear(4); layer b linear(4, tie=a.weight); cycle { x -> a -> b; }";
  expect_error(ErrorCode::kUnimplemented, "ties layer 'b' to 'a.weight'",
               [&] { (void)Stage(parse_harp(tie), wish); });
  const std::string frozen =
      "producer x {4}; layer a linear(4, trainable=false); cycle { x -> a; }";
  expect_error(ErrorCode::kUnimplemented, "freezes layer 'a'",
               [&] { (void)Stage(parse_harp(frozen), wish); });
}

TEST_F(OpenClTest, Float64RunsOnTheCpuWithAWarning) {
  GraphBuilder builder("wide");
  builder.producer("x", Shape{3}, DType::kFloat64);
  builder.layer("y", "linear", {{"out", std::int64_t{2}}}, {"x"}).consumer("out", "y");
  RuntimeOptions wish = options(Backend::FPGA);
  expect_error(ErrorCode::kUnimplemented, "float64", [&] { (void)Stage(builder.build(), wish); });
  wish.strict = false;
  const LogCapture log;
  EXPECT_EQ(Stage(builder.build(), wish)->place(), "cpu");
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("float64")));
}

TEST_F(OpenClTest, OutOfMemoryNamesLayerSizeAndWhatIsFree) {
  GraphBuilder builder("wide");
  builder.producer("x", Shape{64});
  builder.layer("narrow", "linear", {{"out", std::int64_t{8}}}, {"x"});
  builder.layer("hungry", "linear", {{"out", std::int64_t{4096}}}, {"narrow"});
  builder.consumer("out", "hungry");
  RuntimeOptions little = options(Backend::FPGA);
  little.device_memory_bytes = 2 << 20;
  Stage stage(builder.build(), little);
  const NamedTensors small = {{"x", Tensor::zeros({4, 64})}};
  static_cast<void>(stage->infer(small));
  try {
    static_cast<void>(stage->infer({{"x", Tensor::zeros({512, 64})}}));
    FAIL() << "8 MiB fitted into 2";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), HasSubstr("layer 'hungry' needs 8.0 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("of 2.0 MiB only"));
  }
  static_cast<void>(stage->infer(small));  // and it goes on
}

TEST_F(OpenClTest, AClassIdThatIsNoneIsAnError) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  PlainRow row({graph}, {options(Backend::FPGA)});
  NamedTensors inputs = batch(graph, 1);
  for (auto& [name, tensor] : inputs) {
    if (tensor.dtype() == DType::kInt64) tensor.mutable_values<std::int64_t>()[2] = 10;
  }
  EXPECT_THROW(static_cast<void>(row.train(inputs)), Error);
}

// Which part runs where matters: both orders.
TEST_F(OpenClTest, PartsBesideTheCpuTrainLikeTheCpu) {
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  PlainRow cpu({graph}, {options(Backend::CPU)});
  PlainRow first(partition_graph(graph, 2), {options(Backend::FPGA), options(Backend::CPU)});
  PlainRow last(partition_graph(graph, 2), {options(Backend::CPU), options(Backend::FPGA)});
  for (std::uint64_t step = 0; step < 5; ++step) {
    const double expected = cpu.train(batch(graph, step)).loss_sum;
    EXPECT_NEAR(first.train(batch(graph, step)).loss_sum, expected, 1e-4 * expected) << step;
    EXPECT_NEAR(last.train(batch(graph, step)).loss_sum, expected, 1e-4 * expected) << step;
  }
}

}  // namespace
}  // namespace harmonics::inline in_runtime
