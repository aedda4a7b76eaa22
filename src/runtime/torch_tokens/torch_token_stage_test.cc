// Token stages on libtorch, beside those of the CPU. The cases of a GPU are skipped without one,
// unless HARMONICS_REQUIRE_GPU=1.
#include <harmonics/runtime/torch_token_stage.h>

#include <gtest/gtest.h>

#include <cmath>

#include <harmonics/runtime/devices.h>

#include "tokens/token_stage_contract_testing.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr Device kGpu{DeviceKind::kCuda, 0};
// Weights of a deviation at which scores of queries and keys are about 1: the 2^-8 by which
// bfloat16 rounds a key then moves a weight of attention by as much. At 0.5 scores are 10 and more,
// and a rounding moves a weight of attention by 4 % and more, in each layer.
constexpr float kMildWeights = 0.2f;

TokenStageKind kind(std::string name, const TorchTokenOptions& torch) {
  const bool gpu = torch.device == kGpu;
  return {std::move(name),
          [torch](const HarmonicGraph& graph, const WeightSource& weights,
                  const TokenStageOptions& options) {
            return make_torch_token_stage(graph, weights, options, torch);
          },
          [gpu] { return !gpu || cuda_available(); }};
}

TorchTokenOptions steady(Device device, DType numbers = DType::kFloat32) {
  TorchTokenOptions options;
  options.device = device;
  options.numbers = numbers;
  options.deterministic = true;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Torch, TokenStageContract, testing::Values(kind("Cpu", steady({}))),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(Cuda, TokenStageContract,
                         testing::Values(kind("Float32", steady(kGpu)),
                                         kind("Bfloat16", steady(kGpu, DType::kBFloat16)),
                                         kind("Float16", steady(kGpu, DType::kFloat16))),
                         kind_name);

/// The same calls to a stage of the CPU and to one on libtorch.
class TorchTokenStageTest : public TokenStageContract {
 protected:
  static std::vector<float> logits(TokenStage& stage, const std::vector<TokenSpan>& spans,
                                   const Ids& ids) {
    TokenTensors tensors;
    tensors.emplace("input_ids", Tensor::of<std::int64_t>({static_cast<std::int64_t>(ids.size())},
                                                          std::span(ids)));
    tensors = stage.compute(spans, tensors);
    const auto values = tensors.at("logits").values<float>();
    return {values.begin(), values.end()};
  }

  /// The largest difference, of the largest number.
  static double apart(const std::vector<float>& one, const std::vector<float>& other) {
    EXPECT_EQ(one.size(), other.size());
    double difference = 0, most = 1e-30;
    for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
      EXPECT_TRUE(std::isfinite(one[i]));
      difference = std::max(difference, std::abs(static_cast<double>(one[i]) - other[i]));
      most = std::max(most, std::abs(static_cast<double>(other[i])));
    }
    return difference / most;
  }

  // Prompts in chunks, sequences that join and leave, and many single tokens in one call.
  static double most_apart(const HarmonicGraph& graph) {
    const WeightSource weights = drawn_weights(graph, kMildWeights);
    TokenStage reference(graph, weights, {}), stage = make()(graph, weights, {});
    double most = 0;
    const auto both = [&](const std::vector<TokenSpan>& spans, std::uint64_t seed) {
      std::size_t rows = 0;
      for (const TokenSpan& span : spans) rows += static_cast<std::size_t>(span.count);
      const Ids ids = drawn_ids(rows, seed);
      most = std::max(most, apart(logits(stage, spans, ids), logits(reference, spans, ids)));
    };
    both({{1, 0, 70, 1}}, 1);
    both({{1, 70, 1, 1}, {2, 0, 9, 9}}, 2);
    both({{1, 71, 100, 0}, {2, 9, 1, 1}, {3, 0, 33, 2}}, 3);
    for (std::int64_t i = 0; i < 40; ++i) {
      both({{3, 33 + i, 1, 1}, {1, 171 + i, 1, 1}, {2, 10 + i, 1, 1}},
           10 + static_cast<std::uint64_t>(i));
    }
    stage.drop(2);
    reference.drop(2);
    for (std::int64_t i = 0; i < 9; ++i) {
      std::vector<TokenSpan> spans{{2, i, 1, 1}, {1, 211 + i, 1, 1}};
      for (SequenceId other = 10; other < 10 + 2 * static_cast<SequenceId>(i); ++other) {
        spans.push_back({other, stage.length(other), 1, 1});
      }
      both(spans, 60 + static_cast<std::uint64_t>(i));
    }
    return most;
  }
};

// Of the largest logit, for mild weights.
double room_for(const std::string& name) {
  if (name.ends_with("Bfloat16")) return 0.05;
  return name.ends_with("Float16") ? 0.01 : 1e-5;
}

TEST_P(TorchTokenStageTest, LlamaIsTheCpus) {
  EXPECT_LT(most_apart(small_llama(3, 50, 300)), room_for(GetParam().name));
}
TEST_P(TorchTokenStageTest, Qwen2IsTheCpus) {
  EXPECT_LT(most_apart(small_qwen2()), room_for(GetParam().name));
}
TEST_P(TorchTokenStageTest, Gpt2IsTheCpus) {
  EXPECT_LT(most_apart(small_gpt2()), room_for(GetParam().name));
}

TEST_P(TorchTokenStageTest, ItsCacheHasACeiling) {
  const HarmonicGraph graph = small_llama();
  TokenStageOptions options;
  options.cache_bytes = 1 << 16;
  TokenStage stage = make()(graph, drawn_weights(graph), options);
  const TokenStageFigures figures = stage.figures();
  EXPECT_LE(figures.token_bytes * static_cast<std::uint64_t>(figures.most_tokens), 1u << 16);
  const auto half = static_cast<std::size_t>(std::min<std::int64_t>(figures.most_tokens, 150));
  SequenceId sequence = 1;
  for (; stage.figures().held_tokens + 160 <= figures.most_tokens; ++sequence) {
    (void)logits(stage, {{sequence, 0, static_cast<std::int64_t>(half), 1}}, drawn_ids(half, 1));
  }
  expect_error(ErrorCode::kResourceExhausted, "give it more memory", [&] {
    (void)logits(stage, {{sequence, 0, 190, 1}}, drawn_ids(190, 1));
  });
  EXPECT_EQ(stage.length(sequence), 0);
  stage.drop_all();
  EXPECT_EQ(stage.figures().held_tokens, 0);
  (void)logits(stage, {{sequence, 0, static_cast<std::int64_t>(half), 1}}, drawn_ids(half, 1));
}

// Its keys and values are rounded once, as those that the stage makes itself are, and come from
// numbers that were not: there is no more room than for those.
TEST_P(TorchTokenStageTest, SequencesGoOnFromTheCpu) {
  const HarmonicGraph graph = small_qwen2();
  const WeightSource weights = drawn_weights(graph, kMildWeights);
  TokenStage reference(graph, weights, {}), stage = make()(graph, weights, {});
  for (SequenceId i = 1; i <= 10; ++i) {
    (void)logits(reference, {{i, 0, 37, 1}}, drawn_ids(37, i));
    stage.restore(i + 4, reference.saved(i));
    EXPECT_EQ(stage.length(i + 4), 37);
    EXPECT_LT(apart(logits(stage, {{i + 4, 37, 2, 2}}, drawn_ids(2, i + 1)),
                    logits(reference, {{i, 37, 2, 2}}, drawn_ids(2, i + 1))),
              room_for(GetParam().name));
  }
}

TEST_P(TorchTokenStageTest, EncodersAreLeftToTheCpu) {
  const HarmonicGraph graph = small_llama();
  TokenStageOptions options;
  options.whole = true;
  expect_error(ErrorCode::kUnimplemented, "encoders are computed on the CPU",
               [&] { (void)make()(graph, drawn_weights(graph), options); });
}

TorchTokenOptions fast(Device device, DType numbers, bool fused) {
  TorchTokenOptions options;
  options.device = device;
  options.numbers = numbers;
  options.fused = fused;
  options.recorded = fused;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Torch, TorchTokenStageTest,
                         testing::Values(kind("Fast", fast({}, DType::kFloat32, true)),
                                         kind("Steady", steady({})),
                                         kind("FastBfloat16", fast({}, DType::kBFloat16, true))),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(
    Cuda, TorchTokenStageTest,
    testing::Values(kind("Fast", fast(kGpu, DType::kFloat32, true)), kind("Steady", steady(kGpu)),
                    kind("FastBfloat16", fast(kGpu, DType::kBFloat16, true)),
                    kind("FastFloat16", fast(kGpu, DType::kFloat16, true)),
                    kind("Plain", fast(kGpu, DType::kFloat32, false)),
                    kind("PlainBfloat16", fast(kGpu, DType::kBFloat16, false))),
    kind_name);

}  // namespace
}  // namespace harmonics::inline in_runtime
