// The same answers on a GPU, within tolerance. Skipped without one, unless HARMONICS_REQUIRE_GPU=1.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/schedule/checkpoint.h>
#include <harmonics/schedule/stage_row.h>

#include <temporary_folder_testing.h>

#include "made_batch_testing.h"
#include "parts/pipeline_runner.h"

namespace harmonics::inline in_schedule {
namespace {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_available()) return;
    const char* required = std::getenv("HARMONICS_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU answers";
    GTEST_SKIP() << "no GPU answers";
  }

  static RuntimeOptions options(Backend backend,
                                PrecisionPolicy precision = PrecisionPolicy::kFull) {
    RuntimeOptions made;
    made.backend = backend;
    made.strict = true;
    made.precision = precision;
    made.micro_batches = 2;
    made.optimizer.learning_rate = 0.002;
    return made;
  }

  static StageRow row(const HarmonicGraph& graph, const RuntimeOptions& options,
                      std::size_t parts = 1) {
    return {partition_graph(graph, parts), std::vector<RuntimeOptions>(parts, options)};
  }

  static std::vector<double> losses(StageRow& row, const HarmonicGraph& graph, int steps,
                                    int first = 0) {
    std::vector<double> all;
    for (int step = first; step < first + steps; ++step) {
      all.push_back(row.train(made_batch(graph, static_cast<std::uint64_t>(step))).taps.loss_sum);
    }
    return all;
  }

  static void expect_near(const std::vector<double>& a, const std::vector<double>& b,
                          double relative) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << "step " << i;
    }
  }
};

TEST_F(GpuTest, TrainsLikeTheCpu) {
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small"}) {
    const HarmonicGraph graph = zoo_graph(name);
    StageRow gpu = row(graph, options(Backend::GPU)), cpu = row(graph, options(Backend::CPU));
    expect_near(losses(gpu, graph, 20), losses(cpu, graph, 20), 2e-3);
  }
}

TEST_F(GpuTest, PartsOnTheGpuEqualTheWhole) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  StageRow whole = row(graph, options(Backend::GPU));
  StageRow parts = row(graph, options(Backend::GPU), 3);
  EXPECT_EQ(losses(whole, graph, 10), losses(parts, graph, 10));
  EXPECT_EQ(weights_digest(whole.parameters()), weights_digest(parts.parameters()));
}

// Passes that are launched as a whole are those that are launched piece by piece: with chance,
// clipping, uneven micro-batches and a last batch of another size.
TEST_F(GpuTest, RecordedPassesGiveTheSameBits) {
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small", "resnet18"}) {
    const HarmonicGraph graph = zoo_graph(name);
    for (const PrecisionPolicy precision : {PrecisionPolicy::kFull, PrecisionPolicy::kBf16}) {
      for (const std::size_t parts : {1, 2}) {
        RuntimeOptions whole = options(Backend::GPU, precision), pieces = whole;
        whole.clip_norm = pieces.clip_norm = 1.0;
        whole.micro_batches = pieces.micro_batches = 3;
        pieces.records = false;
        StageRow recorded = row(graph, whole, parts), plain = row(graph, pieces, parts);
        for (std::uint64_t step = 0; step < 12; ++step) {
          NamedTensors batch = made_batch(graph, step);
          if (step % 5 == 4) {
            for (auto& [producer, rows] : batch) rows = rows.slice(0, 10);
          }
          const double loss = recorded.train(batch).taps.loss_sum;
          EXPECT_EQ(loss, plain.train(batch).taps.loss_sum) << name << ", step " << step;
        }
        EXPECT_EQ(weights_digest(recorded.parameters()), weights_digest(plain.parameters()))
            << name << " in " << parts << ", " << precision_name(precision);
      }
    }
  }
}

// Two kinds of batches have micro-batches of one shape in common, and several are under way.
TEST_F(GpuTest, RecordedPassesOfTwoKindsOfBatchesShareNoMemory) {
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  for (const PipelineOrder order : {PipelineOrder::OneForwardOneBackward, PipelineOrder::GPipe}) {
    RuntimeOptions whole = options(Backend::GPU), pieces = whole;
    whole.micro_batches = pieces.micro_batches = 3;
    pieces.records = false;
    StageRow recorded = row(graph, whole, 2), plain = row(graph, pieces, 2);
    for (StageRow* each : {&recorded, &plain}) {
      each->set_runner(make_pipeline_runner(*each, {order}, 1));
    }
    for (std::uint64_t step = 0; step < 18; ++step) {
      NamedTensors batch = made_batch(graph, step);  // 6, 5 and 5 rows; 5, 5 and 5
      if (step % 3 == 2) {
        for (auto& [producer, rows] : batch) rows = rows.slice(0, 15);
      }
      EXPECT_EQ(recorded.train(batch).taps.loss_sum, plain.train(batch).taps.loss_sum)
          << "step " << step;
    }
    EXPECT_EQ(weights_digest(recorded.parameters()), weights_digest(plain.parameters()));
  }
}

// Batches of two sizes between steps that change the weights, and a third size that comes once.
TEST_F(GpuTest, RecordedInferenceGivesTheSameBits) {
  for (const char* name : {"digits-mlp", "lenet-digits", "transformer-small", "resnet18"}) {
    const HarmonicGraph graph = zoo_graph(name);
    for (const PrecisionPolicy precision : {PrecisionPolicy::kFull, PrecisionPolicy::kBf16}) {
      RuntimeOptions whole = options(Backend::GPU, precision), pieces = whole;
      pieces.records = false;
      StageRow recorded = row(graph, whole, 2), plain = row(graph, pieces, 2);
      for (std::uint64_t step = 0; step < 12; ++step) {
        NamedTensors batch = made_batch(graph, step);
        for (auto& [producer, rows] : batch) {
          rows = rows.slice(0, step == 7 ? 3 : step % 2 == 0 ? 16 : 10);
        }
        EXPECT_EQ(weights_digest(recorded.infer(batch)), weights_digest(plain.infer(batch)))
            << name << ", " << precision_name(precision) << ", step " << step;
        if (step % 4 != 3) continue;
        EXPECT_EQ(losses(recorded, graph, 1, 100), losses(plain, graph, 1, 100));
      }
    }
  }
}

// Parts with a queue of the GPU each, working side by side, against one after another: recorded and
// not, and with batches of two sizes.
TEST_F(GpuTest, PartsSideBySideLearnWhatTheyLearnInTurn) {
  for (const char* name : {"lenet-digits", "transformer-small", "resnet18"}) {
    const HarmonicGraph graph = zoo_graph(name);
    for (const std::size_t parts : {2, 3}) {
      for (const bool records : {true, false}) {
        RuntimeOptions one = options(Backend::GPU, PrecisionPolicy::kBf16);
        one.micro_batches = 4;
        one.records = records;
        StageRow in_turn = row(graph, one, parts), beside = row(graph, one, parts);
        beside.set_runner(make_pipeline_runner(beside, {}, 1));
        for (std::uint64_t step = 0; step < 25; ++step) {
          NamedTensors batch = made_batch(graph, step);
          if (step % 7 == 6) {
            for (auto& [producer, rows] : batch) rows = rows.slice(0, 9);
          }
          EXPECT_EQ(beside.train(batch).taps.loss_sum, in_turn.train(batch).taps.loss_sum)
              << name << ", step " << step;
        }
        EXPECT_EQ(weights_digest(beside.parameters()), weights_digest(in_turn.parameters()))
            << name << " in " << parts << (records ? ", recorded" : "");
      }
    }
  }
}

TEST_F(GpuTest, RecordedPassesSayWhichLayerIsNotFinite) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  StageRow gpu = row(graph, options(Backend::GPU), 2);
  losses(gpu, graph, 6);
  NamedTensors weights = gpu.stages().front()->parameters();
  std::vector<float> spoilt(weights.begin()->second.values<float>().begin(),
                            weights.begin()->second.values<float>().end());
  spoilt.front() = INFINITY;
  weights.begin()->second =
      Tensor::of(weights.begin()->second.shape(), std::span<const float>(spoilt));
  gpu.stages().front()->set_parameters(weights);
  try {
    losses(gpu, graph, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer '"), std::string::npos) << error.what();
  }
}

TEST_F(GpuTest, GpuAndCpuPartsWorkTogether) {
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  StageRow mixed(partition_graph(graph, 2), {options(Backend::GPU), options(Backend::CPU)});
  StageRow cpu = row(graph, options(Backend::CPU));
  expect_near(losses(mixed, graph, 20), losses(cpu, graph, 20), 2e-3);
}

TEST_F(GpuTest, MixedPrecisionLearns) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  for (const PrecisionPolicy policy : {PrecisionPolicy::kBf16, PrecisionPolicy::kFp16}) {
    StageRow mixed = row(graph, options(Backend::GPU, policy));
    double last = 0;
    for (int i = 0; i < 200; ++i) last = mixed.train(made_batch(graph, 1)).taps.loss_sum / 16;
    EXPECT_LT(last, 0.2) << precision_name(policy);
    EXPECT_EQ(mixed.parameters().begin()->second.dtype(), DType::kFloat32);
  }
}

TEST_F(GpuTest, CheckpointsMoveBetweenGpuAndCpu) {
  const HarmonicGraph graph = zoo_graph("digits-mlp");
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "gpu.safetensors";
  StageRow gpu = row(graph, options(Backend::GPU));
  losses(gpu, graph, 5);
  save_checkpoint(path, gpu, {});
  StageRow cpu = row(graph, options(Backend::CPU));
  static_cast<void>(load_checkpoint(path, cpu));
  EXPECT_EQ(weights_digest(cpu.parameters()), weights_digest(gpu.parameters()));
  expect_near(losses(cpu, graph, 5, 5), losses(gpu, graph, 5, 5), 2e-3);
  save_checkpoint(path, cpu, {});
  static_cast<void>(load_checkpoint(path, gpu));
  EXPECT_EQ(weights_digest(cpu.parameters()), weights_digest(gpu.parameters()));
}

}  // namespace
}  // namespace harmonics::inline in_schedule
