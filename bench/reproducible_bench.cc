// What the reproducible arithmetic costs: CPU seconds of a step of learning beside libtorch's, on
// one thread, the two in turn. Each number is the median of the rounds. `--short` takes few rounds
// of the small models; HARMONICS_EXACT forces an instruction set.
#include <cstdio>
#include <string>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/base/random.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/stage.h>
#include <harmonics/runtime/stage_backend.h>

#include "rounds.h"

using namespace harmonics;

namespace {

constexpr double kMostTime = 3.0;

struct Case {
  const char* model;
  std::int64_t rows;
  int steps;  // in one round
};

NamedTensors made_batch(const HarmonicGraph& graph, std::int64_t rows) {
  NamedTensors batch;
  for (const ProducerNode& node : graph.producers()) {
    Shape shape = *node.shape;
    shape.insert(shape.begin(), rows);
    batch.emplace(node.name, Tensor::zeros(shape, node.dtype));
    Random random(1, node.name);
    if (node.dtype == DType::kFloat32) {
      for (float& value : batch[node.name].mutable_values<float>()) value = random.normal();
    } else {
      for (auto& id : batch[node.name].mutable_values<std::int64_t>()) {
        id = static_cast<std::int64_t>(random.below(10));
      }
    }
  }
  return batch;
}

class Contestant {
 public:
  Contestant(const Case& wanted, bool reproducible)
      : wanted_(wanted), stage_(zoo_graph(wanted.model), options(reproducible)) {}

  /// CPU seconds a step.
  double round(const NamedTensors& batch) {
    const bench::Cost cost = bench::measured([&] {
      for (int i = 0; i < wanted_.steps; ++i) step(batch);
    });
    return cost.cpu / wanted_.steps;
  }

 private:
  static RuntimeOptions options(bool reproducible) {
    RuntimeOptions made;
    made.threads = 1;
    made.reproducible = reproducible;
    made.optimizer.kind = OptimizerKind::kAdamW;
    return made;
  }

  void step(const NamedTensors& batch) {
    const MicroBatch whole{static_cast<std::uint64_t>(updates_), 0, 0, wanted_.rows};
    TapReport report;
    static_cast<void>(stage_->forward(whole, batch, report));
    static_cast<void>(stage_->backward(whole, {}));
    static_cast<void>(stage_->gradient_square_sums());
    stage_->update({0.001, 1, updates_++});
  }

  Case wanted_;
  Stage stage_;
  std::int64_t updates_ = 0;
};

bool measure(const Case& wanted, int rounds) {
  const NamedTensors batch = made_batch(zoo_graph(wanted.model), wanted.rows);
  Contestant exact(wanted, true), torch(wanted, false);
  static_cast<void>(exact.round(batch));
  static_cast<void>(torch.round(batch));
  std::vector<double> ours, theirs;
  for (int i = 0; i < rounds; ++i) {
    ours.push_back(exact.round(batch));
    theirs.push_back(torch.round(batch));
  }
  const double own = bench::median(ours), other = bench::median(theirs);
  return bench::row(format("{}, {} rows: a step of learning", wanted.model, wanted.rows),
                    format("{:.2f} ms", own * 1e3), format("{:.2f} ms", other * 1e3), own / other,
                    format("<= {}", kMostTime));
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("name | ours | reference | ratio | bar\n");
  const bool brief = bench::has_flag(argc, argv, "--short");
  bool good = true;
  std::vector<Case> cases = {{"digits-mlp", 64, 20}, {"lenet", 64, 5}, {"lenet-digits", 64, 5}};
  if (!brief) cases.insert(cases.end(), {{"transformer-small", 32, 3}, {"resnet18", 4, 1}});
  for (const Case& wanted : cases) good &= measure(wanted, brief ? 2 : 7);
  return bench::has_flag(argc, argv, "--check") && !good ? 1 : 0;
}
