// Learns y = 2a - 3b from 256 made-up samples and prints the loss before and after.
#include <harmonics/harmonics.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

namespace {

harmonics::Tensor targets_of(const harmonics::Tensor& samples) {
  const auto values = samples.values<float>();
  std::vector<float> targets;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    targets.push_back(2 * values[i] - 3 * values[i + 1]);
  }
  return harmonics::Tensor::of<float>({static_cast<std::int64_t>(targets.size()), 1}, targets);
}

void learn() {
  using namespace harmonics;
  constexpr std::int64_t kSamples = 256;
  Tensor samples = Tensor::empty({kSamples, 2});
  Random random(1, "consumer");
  for (float& value : samples.mutable_values<float>()) value = random.normal();

  const HarmonicGraph graph = GraphBuilder("line")
                                  .producer("input", Shape{2})
                                  .producer("target", Shape{1})
                                  .layer("dense", "linear", {{"out", 1}}, {"input"})
                                  .consumer("output", "dense")
                                  .tap("mse", "dense", "target")
                                  .build();
  RuntimeOptions options;
  options.optimizer.learning_rate = 0.05;
  CycleRuntime runtime(graph, options);
  runtime.bindProducer(
      "input", std::make_shared<BatchProducer>(std::make_shared<MemoryProducer>(samples), 32));
  runtime.bindProducer("target", std::make_shared<BatchProducer>(
                                     std::make_shared<MemoryProducer>(targets_of(samples)), 32));

  std::printf("loss before: %.6f\n", runtime.step().loss.value());
  runtime.fit(20);
  std::printf("loss after:  %.6f\n", runtime.step().loss.value());
}

}  // namespace

int main() {
  try {
    learn();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    return 1;
  }
}
