// Inference keeps what it works out of weights, and uses memory again: neither may show.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include <harmonics/base/random.h>
#include <harmonics/graph/partition.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/runtime/torch_layer.h>

#include "layer_cases_testing.h"
#include "pass_memory.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr std::int64_t kRows = 3;

Tensor random_rows(Shape shape, std::int64_t below, std::uint64_t seed, bool positive) {
  shape.insert(shape.begin(), kRows);
  Random random(seed, "inference");
  Tensor rows = Tensor::empty(shape, below > 0 ? DType::kInt64 : DType::kFloat32);
  if (below > 0) {
    for (auto& value : rows.mutable_values<std::int64_t>()) value = random.below(below);
    return rows;
  }
  for (float& value : rows.mutable_values<float>()) {
    const auto number = static_cast<float>(random.normal());
    value = positive ? std::abs(number) + 0.5f : number;
  }
  return rows;
}

Tensor row_of(const Tensor& rows, std::int64_t index) {
  Shape shape = rows.shape();
  shape[0] = 1;
  Tensor value = Tensor::empty(shape, rows.dtype());
  const std::size_t bytes = value.bytes().size();
  std::ranges::copy(rows.bytes().subspan(static_cast<std::size_t>(index) * bytes, bytes),
                    value.mutable_bytes().begin());
  return value;
}

/// One layer, and a batch for it.
struct OneLayer {
  HarmonicGraph graph;
  NamedTensors batch;

  explicit OneLayer(const LayerCase& item) : graph(graph_of(item)) {
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      batch[format("x{}", i)] = random_rows(item.inputs[i], item.ids_below(i), i, item.positive);
    }
  }

  static HarmonicGraph graph_of(const LayerCase& item) {
    GraphBuilder builder("one");
    std::vector<std::string> names;
    for (std::size_t i = 0; i < item.inputs.size(); ++i) {
      names.push_back(format("x{}", i));
      builder.producer(names.back(), item.inputs[i],
                       item.ids_below(i) > 0 ? DType::kInt64 : DType::kFloat32);
    }
    return builder.layer("layer", item.type, item.attributes, names, item.activation)
        .consumer("out", "layer")
        .build();
  }

  [[nodiscard]] NamedTensors row(std::int64_t index) const {
    NamedTensors one;
    for (const auto& [name, rows] : batch) one[name] = row_of(rows, index);
    return one;
  }
};

bool equal_bytes(ByteSpan a, ByteSpan b) { return std::ranges::equal(a, b); }

Tensor answer(Stage& stage, const NamedTensors& batch) { return stage->infer(batch).at("out"); }

TEST(Inference, ForgetsWhatItKeptWhenWeightsChange) {
  for (const LayerCase& item : layer_cases()) {
    const OneLayer one(item);
    RuntimeOptions other;
    other.seed = 9;
    Stage stage(one.graph, {}), fresh(one.graph, other);
    static_cast<void>(answer(stage, one.batch));
    stage->set_parameters(fresh->parameters());
    EXPECT_TRUE(equal_bytes(answer(stage, one.batch).bytes(), answer(fresh, one.batch).bytes()))
        << item.label << ": set";
    Stage last(one.graph, {});
    const NamedTensors weights = last->parameters();
    stage->load_parameters([&](const std::string& name) { return weights.at(name); });
    EXPECT_TRUE(equal_bytes(answer(stage, one.batch).bytes(), answer(last, one.batch).bytes()))
        << item.label << ": loaded";
  }
}

TEST(Inference, OfABatchIsThatOfItsRows) {
  for (const LayerCase& item : convolution_cases()) {
    const OneLayer one(item);
    Stage stage(one.graph, {});
    const Tensor whole = answer(stage, one.batch);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const Tensor row = answer(stage, one.row(i));
      const std::size_t bytes = row.bytes().size();
      EXPECT_TRUE(equal_bytes(row.bytes(),
                              whole.bytes().subspan(static_cast<std::size_t>(i) * bytes, bytes)))
          << item.label << ", row " << i;
    }
  }
}

/// Windows, sums and norms over pictures whose tensors are larger than what is cached of a batch.
HarmonicGraph wide_block() {
  const auto convolution = [](std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    return Attributes{
        {"out", out}, {"kernel", kernel}, {"stride", stride}, {"padding", kernel / 2}};
  };
  GraphBuilder builder("block");
  builder.producer("x", Shape{3, 200, 200});
  builder.layer("stem", "conv2d", convolution(32, 7, 1), {"x"});
  builder.layer("norm", "batch_norm", {}, {"stem"}, "relu");
  builder.layer("pool", "max_pool", {{"kernel", std::int64_t{2}}}, {"norm"});
  builder.layer("a", "conv2d", convolution(32, 3, 1), {"pool"}, "relu");
  builder.layer("odd", "conv2d", convolution(5, 1, 1), {"a"});
  builder.layer("b", "conv2d", convolution(32, 1, 1), {"odd"});
  builder.layer("sum", "add", {}, {"pool", "b"}, "relu");
  builder.layer("mean", "adaptive_avg_pool", {{"size", std::int64_t{3}}}, {"sum"});
  return builder.consumer("early", "pool").consumer("out", "mean").build();
}

TEST(Inference, OfPicturesIsTheSameInAnyBatchAndHoweverItIsCut) {
  const HarmonicGraph graph = wide_block();
  const NamedTensors batch = {{"x", random_rows({3, 200, 200}, 0, 4, false)}};
  Stage stage(graph, {});
  const NamedTensors whole = stage->infer(batch);
  for (std::int64_t i = 0; i < kRows; ++i) {
    const NamedTensors row = stage->infer({{"x", row_of(batch.at("x"), i)}});
    for (const char* name : {"early", "out"}) {
      EXPECT_TRUE(equal_bytes(row.at(name).bytes(), row_of(whole.at(name), i).bytes()))
          << name << i;
    }
  }
  for (const std::size_t parts : {2, 3, 5}) {
    NamedTensors known = batch;
    for (const HarmonicGraph& part : partition_graph(graph, parts)) {
      Stage cut(part, {});
      cut->set_parameters(stage->parameters());
      known.merge(cut->infer(known));
    }
    for (const char* name : {"early", "out"}) {
      EXPECT_TRUE(equal_bytes(known.at(name).bytes(), whole.at(name).bytes())) << name << parts;
    }
  }
}

TEST(Inference, LeavesWhatEnteredAsItWas) {
  GraphBuilder builder("first");
  builder.producer("x", Shape{24}).layer("view", "reshape", {{"shape", Shape{4, 2, 3}}}, {"x"});
  builder.layer("norm", "batch_norm", {}, {"view"}, "relu");
  builder.layer("again", "batch_norm", {}, {"x"}, "relu");
  const HarmonicGraph graph = builder.consumer("a", "norm").consumer("b", "again").build();
  const Tensor x = random_rows({24}, 0, 3, false);
  const std::vector<float> before(x.values<float>().begin(), x.values<float>().end());
  Stage stage(graph, {});
  NamedTensors weights = stage->parameters();
  for (auto& [name, value] : weights) std::ranges::fill(value.mutable_values<float>(), 3.0f);
  stage->set_parameters(weights);
  static_cast<void>(stage->infer({{"x", x}}));
  EXPECT_THAT(x.values<float>(), testing::ElementsAreArray(before));
}

TEST(Inference, AnActivationOfOnesOwnIsTaken) {
  GraphBuilder builder("own");
  builder.producer("x", Shape{2})
      .layer("same", "add", {}, {"x", "x"}, "silu")
      .consumer("y", "same");
  const HarmonicGraph graph = builder.build();
  const TorchActivation before = torch_activation("silu");
  register_torch_activation("silu",
                            [](const at::Tensor& x, std::span<const at::Tensor>) { return x + 1; });
  const NamedTensors answer = Stage(graph, {})->infer({{"x", Tensor::of<float>({1, 2}, {1, 2})}});
  register_torch_activation("silu", before);
  EXPECT_THAT(answer.at("y").values<float>(), testing::ElementsAre(3, 5));
}

TEST(Inference, AfterLearningIsThatOfTheWeightsLearnt) {
  GraphBuilder builder("learns");
  builder.producer("image", Shape{3, 9, 9}).producer("label", Shape{1}, DType::kInt64);
  builder.layer("conv", "conv2d", {{"out", std::int64_t{8}}, {"kernel", std::int64_t{3}}},
                {"image"});
  builder.layer("norm", "batch_norm", {}, {"conv"}, "relu").layer("flat", "flatten", {}, {"norm"});
  builder.layer("head", "linear", {{"out", std::int64_t{4}}}, {"flat"}).consumer("logits", "head");
  const HarmonicGraph graph = builder.tap("cross_entropy", "head", "label").build();
  const MicroBatch micro_batch{0, 0, 0, kRows};
  const NamedTensors batch = {{"image", random_rows({3, 9, 9}, 0, 5, false)},
                              {"label", random_rows({1}, 4, 6, false)}};
  Stage stage(graph, {});
  const NamedTensors before = stage->infer(batch);
  TapReport report;
  static_cast<void>(stage->forward(micro_batch, batch, report));
  static_cast<void>(stage->backward(micro_batch, {}, 1.0));
  stage->update({.learning_rate = 0.01});
  const NamedTensors after = stage->infer(batch);
  Stage fresh(graph, {});
  fresh->set_parameters(stage->parameters());
  fresh->set_buffers(stage->buffers());
  const NamedTensors expected = fresh->infer(batch);
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(equal_bytes(after.at(name).bytes(), value.bytes())) << name;
    EXPECT_FALSE(equal_bytes(before.at(name).bytes(), value.bytes())) << name;
  }
}

TEST(PassMemory, GivesBlocksAgainAndKeepsNoMoreThanItsCeiling) {
#if TORCH_VERSION_MAJOR >= 2
  GTEST_SKIP() << "libtorch 2 keeps its own allocator";
#endif
  const PassMemory memory;
  const auto floats = [](std::size_t bytes) {
    return at::full({static_cast<std::int64_t>(bytes / sizeof(float))}, 1.0f);
  };
  const void* first = nullptr;
  {
    const at::Tensor block = floats(3 * kLeastPassBlock);
    first = block.data_ptr();
  }
  const at::Tensor again = floats(3 * kLeastPassBlock - 100);
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_EQ(again.sum().item<double>(), static_cast<double>(again.numel()));
  {
    std::vector<at::Tensor> many;
    for (std::size_t bytes = 0; bytes < 2 * kMaxIdlePassBytes; bytes += kMaxIdlePassBytes / 8) {
      many.push_back(floats(kMaxIdlePassBytes / 8));
    }
  }
  EXPECT_LE(PassMemory::idle_bytes(), kMaxIdlePassBytes);
  EXPECT_GT(PassMemory::idle_bytes(), kMaxIdlePassBytes / 2);
  floats(2 * kMaxIdlePassBytes);
  EXPECT_LE(PassMemory::idle_bytes(), kMaxIdlePassBytes);
}

TEST(PassMemory, TensorsOutliveIt) {
#if TORCH_VERSION_MAJOR >= 2
  GTEST_SKIP() << "libtorch 2 keeps its own allocator";
#endif
  at::Tensor kept;
  {
    const PassMemory memory;
    kept = at::full({static_cast<std::int64_t>(kLeastPassBlock)}, 2.0f);
  }
  const at::Tensor outside = at::full({static_cast<std::int64_t>(kLeastPassBlock)}, 3.0f);
  EXPECT_EQ(kept.sum().item<double>(), 2.0 * static_cast<double>(kLeastPassBlock));
  const std::size_t before = PassMemory::idle_bytes();
  std::thread([&] { kept.reset(); }).join();
  EXPECT_GT(PassMemory::idle_bytes(), before);
}

}  // namespace
}  // namespace harmonics::inline in_runtime
