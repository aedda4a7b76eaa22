// What it gives and costs to compute activations again instead of keeping them.
//
// Each case trains in a process of its own on one thread. A row of memory is what the rows of a
// batch add to the peak (VmHWM) of a process that trains one row, so that weights, gradients and
// the program itself do not count; a row of time is CPU seconds a step. `--short` takes a small
// model.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <string>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/runtime/stage_backend.h>

#include "pieces/process_memory.h"
#include "rounds.h"

using namespace harmonics;

namespace {

constexpr int kSteps = 3;
constexpr double kMostMemory = 0.5, kMostTime = 1.35;

struct Case {
  const char* model;
  std::int64_t rows;
};

/// What one process says.
struct Told {
  double peak = 0;  // bytes
  double step = 0;  // CPU seconds, the least of all steps but the first
};

NamedTensors made_batch(const HarmonicGraph& graph, std::int64_t rows) {
  NamedTensors batch;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), rows);
    batch.emplace(node.name, Tensor::zeros(shape, node.dtype));
    if (node.dtype != DType::kFloat32) continue;
    Random random(1, node.name);
    for (float& value : batch[node.name].mutable_values<float>()) value = random.normal();
  }
  return batch;
}

Told trained(const Case& wanted, int recompute) {
  const HarmonicGraph graph = zoo_graph(wanted.model);
  RuntimeOptions options;
  options.threads = 1;
  options.recompute = recompute;
  Stage stage(graph, options);
  const NamedTensors batch = made_batch(graph, wanted.rows);
  Told told;
  for (int step = 0; step < kSteps; ++step) {
    const MicroBatch whole{static_cast<std::uint64_t>(step), 0, 0, wanted.rows};
    const bench::Cost cost = bench::measured([&] {
      TapReport report;
      static_cast<void>(stage->forward(whole, batch, report));
      static_cast<void>(stage->backward(whole, {}));
      stage->update({.learning_rate = 0.001});
    });
    if (step == 1 || (step > 1 && cost.cpu < told.step)) told.step = cost.cpu;
  }
  told.peak = bench::memory_of_this("VmHWM");
  return told;
}

/// The same in a process that begins with nothing.
Told trained_apart(const Case& wanted, int recompute) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) std::exit(2);
  const pid_t child = fork();
  if (child == 0) {
    const Told told = trained(wanted, recompute);
    _exit(write(ends[1], &told, sizeof told) == sizeof told ? 0 : 2);
  }
  close(ends[1]);
  Told told;
  int status = 1;
  const bool heard = child > 0 && read(ends[0], &told, sizeof told) == sizeof told;
  close(ends[0]);
  if (waitpid(child, &status, 0) != child || status != 0 || !heard) {
    std::cerr << format("training {} ended with status {}\n", wanted.model, status);
    std::exit(2);
  }
  return told;
}

bool measure(const Case& wanted) {
  const auto added = [&](const Told& whole, int recompute) {
    return (whole.peak - trained_apart({wanted.model, 1}, recompute).peak) / 1e6;
  };
  const Told kept = trained_apart(wanted, 1), again = trained_apart(wanted, 0);
  const double kept_mb = added(kept, 1), again_mb = added(again, 0);
  const std::string name = format("{}, {} rows: ", wanted.model, wanted.rows);
  const bool small =
      bench::row(name + "memory of a batch", format("{:.0f} MB", again_mb),
                 format("{:.0f} MB", kept_mb), again_mb / kept_mb, format("<= {}", kMostMemory));
  const bool fast =
      bench::row(name + "time of a step", format("{:.2f} s", again.step),
                 format("{:.2f} s", kept.step), again.step / kept.step, format("<= {}", kMostTime));
  return small && fast;
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("name | ours | reference | ratio | bar\n");
  bool good = true;
  if (bench::has_flag(argc, argv, "--short")) {
    good = measure({"transformer-small", 64});
  } else {
    for (const Case& wanted : {Case{"vit-base", 6}, Case{"resnet50", 12}}) good &= measure(wanted);
  }
  return bench::has_flag(argc, argv, "--check") && !good ? 1 : 0;
}
