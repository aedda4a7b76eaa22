// One sha256 of the weights, whatever computes them: instruction sets, threads, parts, an OpenCL
// device, a GPU, parts on unlike ones. The digests are written down here, so that every machine
// that runs this test must find them. HARMONICS_SOAK=1 takes 100 steps;
// tests/cli/reproducible_test.py adds processes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/stage_row.h>

#include <error_testing.h>

#include "parts/pipeline_runner.h"

namespace harmonics::inline in_schedule {
namespace {

/// Numbers that take no function of the C library to draw.
NamedTensors drawn_batch(const HarmonicGraph& graph, std::int64_t rows, std::uint64_t seed) {
  NamedTensors inputs;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), rows);
    Tensor out = Tensor::empty(shape, node.dtype);
    Random random(seed, node.name);
    if (node.dtype == DType::kInt64) {
      for (auto& id : out.mutable_values<std::int64_t>()) {
        id = static_cast<std::int64_t>(random.below(10));
      }
    } else {
      for (float& value : out.mutable_values<float>()) value = 2 * random.uniform() - 1;
    }
    inputs[node.name] = out;
  }
  return inputs;
}

struct Trained {
  std::string model;
  std::int64_t rows;
  int micro_batches;
  std::string after_two_steps;
  std::string after_hundred;
};

const std::vector<Trained>& runs() {
  static const std::vector<Trained> all = {
      {"digits-mlp", 16, 2, "307f0e1b514b26736580c4efbcdd2fe07bc8e6e09c0b61a28c03c269a2fcf858",
       "c4133b8f2ddcb55cef237ee422c1437b8c84db60e41359a78f32e0743e4d76c4"},
      {"lenet-digits", 8, 2, "f9c1007b31aaa8eda719821a3077a0211bf2b465a0b1f3798b29120317bc636f",
       "e6482e8833597186a908814a902cb9dbe243a9658f9b36c438432d619608173b"},
      {"transformer-small", 3, 1,
       "b7223874a137c44c3180e5e13e1509d13edcebfab98e817c2f7015513a34c258",
       "c0bac8e625b451e054abae74ff467d234257ffd97f55fa87fb658a6ad682f585"},
  };
  return all;
}

bool whole_campaign() {
  const char* soak = std::getenv("HARMONICS_SOAK");
  return soak != nullptr && std::string(soak) == "1";
}

RuntimeOptions exact_options(const Trained& run, int threads, Backend backend) {
  RuntimeOptions options;
  options.reproducible = true;
  options.backend = backend;
  options.strict = true;
  options.threads = threads;
  options.micro_batches = run.micro_batches;
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.optimizer.weight_decay = 0.01;
  options.clip_norm = 0.5;
  options.schedule = {ScheduleKind::kCosine, 1, 1000, 0.1, 100, 0.1};
  return options;
}

/// A part for each of `backends`.
std::string trained(const Trained& run, const std::vector<Backend>& backends, int threads) {
  const HarmonicGraph graph = zoo_graph(run.model);
  std::vector<RuntimeOptions> options;
  for (const Backend backend : backends) options.push_back(exact_options(run, threads, backend));
  StageRow row(partition_graph(graph, backends.size()), options);
  if (backends.size() > 1)
    row.set_runner(make_pipeline_runner(row, {PipelineOrder::OneForwardOneBackward}, threads));
  const std::uint64_t steps = whole_campaign() ? 100 : 2;
  for (std::uint64_t step = 0; step < steps; ++step) {
    static_cast<void>(row.train(drawn_batch(graph, run.rows, step), nullptr));
  }
  return weights_digest(row.parameters());
}

const std::string& expected_of(const Trained& run) {
  return whole_campaign() ? run.after_hundred : run.after_two_steps;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets = {"scalar"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.emplace_back("avx2");
  if (__builtin_cpu_supports("avx512f")) sets.emplace_back("avx512");
#elif defined(__aarch64__)
  sets.emplace_back("neon");
#endif
  return sets;
}

class InstructionSet {
 public:
  explicit InstructionSet(const std::string& name) { ::setenv("HARMONICS_EXACT", name.c_str(), 1); }
  InstructionSet(const InstructionSet&) = delete;
  InstructionSet& operator=(const InstructionSet&) = delete;
  ~InstructionSet() { ::unsetenv("HARMONICS_EXACT"); }
};

TEST(Reproducible, OneDigestForAllWaysToComputeIt) {
  for (const Trained& run : runs()) {
    for (const std::string& set : instruction_sets()) {
      const InstructionSet forced(set);
      for (const int threads : {1, 2}) {
        for (const std::size_t parts : {1U, 3U}) {
          EXPECT_EQ(trained(run, std::vector(parts, Backend::CPU), threads), expected_of(run))
              << run.model << ", " << set << ", " << threads << " threads, " << parts << " parts";
        }
      }
    }
  }
}

// On the device alone, in three parts, and with parts on both.
void expect_the_same_on(Backend device) {
  for (const Trained& run : runs()) {
    for (const std::vector<Backend>& backends :
         {std::vector{device}, std::vector(3, device), std::vector{device, Backend::CPU, device}}) {
      EXPECT_EQ(trained(run, backends, 1), expected_of(run))
          << run.model << ", " << backends.size() << " parts";
    }
  }
}

TEST(ReproducibleOpenCl, GivesTheDigestOfTheCpu) {
  if (list_opencl_devices().empty()) GTEST_SKIP() << opencl_lacking({}, {});
  expect_the_same_on(Backend::FPGA);
}

TEST(ReproducibleCuda, GivesTheDigestOfTheCpu) {
  if (!cuda_available()) {
    const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU answers";
    GTEST_SKIP() << "no GPU answers";
  }
  expect_the_same_on(Backend::GPU);
}

HarmonicGraph unknown_graph() {
  GraphBuilder builder("unknown");
  builder.producer("x", Shape{4, 6}).layer("states", "lstm", {{"width", std::int64_t{3}}}, {"x"});
  builder.consumer("out", "states");
  return builder.build();
}

TEST(Reproducible, TheDescriptorAsksForItToo) {
  DeploymentDescriptor deploy;
  deploy.reproducible = true;
  expect_error(ErrorCode::kUnimplemented, "layer 'states' (lstm) has no reproducible form", [&] {
    static_cast<void>(DistributedScheduler({unknown_graph()}, deploy).weights_digest());
  });
}

TEST(Reproducible, WhatItDoesNotKnowIsRefusedByName) {
  RuntimeOptions options;
  options.reproducible = true;
  expect_error(ErrorCode::kUnimplemented, "layer 'states' (lstm) has no reproducible form",
               [&] { CycleRuntime(unknown_graph(), options); });
  options.precision = PrecisionPolicy::kBf16;
  expect_error(ErrorCode::kUnimplemented, "computes in full precision, not in bf16",
               [&] { CycleRuntime(zoo_graph("digits-mlp"), options); });
  options.precision = PrecisionPolicy::kFull;
  options.recompute = 2;
  expect_error(ErrorCode::kUnimplemented, "keeps what its layers gave",
               [&] { CycleRuntime(zoo_graph("digits-mlp"), options); });
}

}  // namespace
}  // namespace harmonics::inline in_schedule
