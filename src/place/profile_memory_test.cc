#include <harmonics/place/profile_memory.h>

#include <gtest/gtest.h>

#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>

namespace harmonics::inline in_place {
namespace {

constexpr std::int64_t kFloat = 4;

// in {8} -> wide {16} (relu) -> narrow {2}, and in + nothing else.
HarmonicGraph small() {
  return GraphBuilder("net")
      .producer("in", Shape{8})
      .producer("label", Shape{1}, DType::kInt64)
      .layer("wide", "linear", {{"out", std::int64_t{16}}}, {"in"}, "relu")
      .layer("narrow", "linear", {{"out", std::int64_t{2}}}, {"wide"})
      .consumer("output", "narrow")
      .tap("cross_entropy", "narrow", "label")
      .build();
}

TEST(ProfileMemory, WeightsGradientsAndOptimizerState) {
  const std::int64_t weights = ((8 + 1) * 16 + (16 + 1) * 2) * kFloat;
  const UnitMemory inference = part_memory(small(), ProfileMode::kInference, 3, {});
  EXPECT_EQ(inference.weights, weights);
  EXPECT_EQ(inference.gradients, 0);
  EXPECT_EQ(inference.optimizer, 0);
  const UnitMemory training = part_memory(small(), ProfileMode::kTraining, 3, {2, 4});
  EXPECT_EQ(training.weights, weights);
  EXPECT_EQ(training.gradients, weights);
  EXPECT_EQ(training.optimizer, 2 * weights);
  EXPECT_EQ(training.total(), 4 * weights + training.activations);
}

TEST(ProfileMemory, BuffersAreWeightsWithoutGradients) {
  const HarmonicGraph graph = GraphBuilder("net")
                                  .producer("in", Shape{8})
                                  .layer("norm", "batch_norm", {}, {"in"})
                                  .consumer("output", "norm")
                                  .build();
  const UnitMemory memory = part_memory(graph, ProfileMode::kTraining, 1, {1, 1});
  EXPECT_EQ(memory.gradients, 2 * 8 * kFloat);  // scale and shift
  EXPECT_GT(memory.weights, memory.gradients);  // and the running statistics
  EXPECT_EQ(memory.optimizer, memory.gradients);
}

// A parameter that goes to another part is there once, whatever the batch.
TEST(ProfileMemory, ATiedTensorIsHeldAtBothEndsOfACut) {
  const HarmonicGraph graph = parse_harp(R"(
    producer ids {6} int64; producer next {6} int64;
    layer embed embedding(rows=10, width=4);
    layer head linear(10, bias=false, tie=embed.weight);
    cycle { ids -> embed -> head; head <-(next_token)- next; })");
  const auto parts = cut_graph(graph, std::vector<std::size_t>{0, 1});
  const std::int64_t tensor = 10 * 4 * kFloat;
  const UnitMemory owner = part_memory(parts[0], ProfileMode::kTraining, 8, {1, 1});
  const UnitMemory user = part_memory(parts[1], ProfileMode::kTraining, 8, {1, 1});
  EXPECT_EQ(owner.weights, tensor);
  EXPECT_EQ(owner.gradients, tensor);
  EXPECT_EQ(user.weights, tensor);
  EXPECT_EQ(user.gradients, 0);
  EXPECT_EQ(owner.activations, 8 * (6 * 8 + 6 * 4 * kFloat));
  EXPECT_EQ(user.activations, 8 * (6 * 4 * kFloat + 6 * 8 + 6 * 10 * kFloat));
}

TEST(ProfileMemory, InferenceHoldsWhatIsAliveAtOnce) {
  // While relu runs: in, and wide twice. The label is not needed.
  EXPECT_EQ(peak_activation_bytes(small()), (8 + 16 + 16) * kFloat);
  EXPECT_EQ(part_memory(small(), ProfileMode::kInference, 3, {}).activations,
            3 * (8 + 16 + 16) * kFloat);
}

TEST(ProfileMemory, ATensorLivesToItsLastUse) {
  // a stays for the addition at the end; b is gone by then.
  const HarmonicGraph skip = GraphBuilder("net")
                                 .producer("in", Shape{10})
                                 .layer("a", "identity", {}, {"in"})
                                 .layer("b", "identity", {}, {"a"})
                                 .layer("c", "identity", {}, {"b"})
                                 .layer("sum", "add", {}, {"a", "c"})
                                 .consumer("output", "sum")
                                 .build();
  EXPECT_EQ(peak_activation_bytes(skip), 3 * 10 * kFloat);
  // A consumer keeps its input to the end.
  const HarmonicGraph kept = GraphBuilder("net")
                                 .producer("in", Shape{10})
                                 .layer("a", "identity", {}, {"in"})
                                 .layer("b", "identity", {}, {"a"})
                                 .layer("c", "identity", {}, {"b"})
                                 .consumer("first", "a")
                                 .consumer("output", "c")
                                 .build();
  EXPECT_EQ(peak_activation_bytes(kept), 3 * 10 * kFloat);
  // The same input twice is one tensor, and what nobody uses is gone at once.
  const HarmonicGraph twice = GraphBuilder("net")
                                  .producer("in", Shape{10})
                                  .layer("unused", "identity", {}, {"in"})
                                  .layer("sum", "add", {}, {"in", "in"})
                                  .consumer("output", "sum")
                                  .build();
  EXPECT_EQ(peak_activation_bytes(twice), 2 * 10 * kFloat);
}

TEST(ProfileMemory, TrainingKeepsEverythingOncePerMicroBatchInFlight) {
  const std::int64_t one = (8 + 2 * 16 + 2) * kFloat + 8;  // and the int64 label
  EXPECT_EQ(kept_activation_bytes(small()), one);
  EXPECT_EQ(part_memory(small(), ProfileMode::kTraining, 3, {2, 1}).activations, 3 * one);
  EXPECT_EQ(part_memory(small(), ProfileMode::kTraining, 3, {2, 5}).activations, 15 * one);
}

TEST(ProfileMemory, WeightsOfVitBaseAreItsParameters) {
  const HarmonicGraph graph = zoo_graph("vit-base");
  EXPECT_EQ(part_memory(graph, ProfileMode::kInference, 1, {}).weights,
            graph.parameter_count() * kFloat);
}

}  // namespace
}  // namespace harmonics::inline in_place
