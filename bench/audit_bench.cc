// What an audit costs: CPU seconds of a step that is computed again, with all that comes before and
// after it (loading the checkpoint, comparing), against those of a step of the secure run itself.
// The MLP 784-1024x7-10 at batch 256 in three parts; every ten steps a checkpoint is kept. An audit
// of p percent of the steps costs p percent of the run times this ratio.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/custody/keys.h>
#include <harmonics/data/batch_producer.h>
#include <harmonics/data/memory_producer.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/distributed_scheduler.h>
#include <harmonics/schedule/stretch_choice.h>

#include <temporary_folder_testing.h>

#include "pieces/made_rows.h"
#include "pieces/mlp_graph.h"
#include "rounds.h"

namespace {

using namespace harmonics;

constexpr std::int64_t kBatch = 256;

std::unique_ptr<Learner> learner(const SecureOptions& secure) {
  const HarmonicGraph graph = bench::mlp_graph();
  RuntimeOptions options;
  options.threads = 1;
  options.optimizer = {OptimizerKind::kSgd, 0.01, 0.9};
  options.secure = secure;
  auto made = std::make_unique<DistributedScheduler>(partition_graph(graph, 3),
                                                     DeploymentDescriptor{}, options);
  for (const ProducerNode& node : graph.producers()) {
    made->bindProducer(
        node.name,
        std::make_shared<BatchProducer>(
            std::make_shared<MemoryProducer>(bench::made_rows(node, kBatch, 10)), kBatch));
  }
  return made;
}

/// The chain of a run of so many steps; every `every` of them a checkpoint is kept in `folder`.
Chain run(const std::filesystem::path& folder, std::int64_t steps, std::int64_t every) {
  SecureOptions secure;
  secure.on = true;
  secure.key = "bench";
  secure.keys = folder / "keys";
  secure.chain = folder / "run.chain";
  const auto made = learner(secure);
  FitOptions fit;
  fit.checkpoint = folder / "kept";
  fit.checkpoint_every = every;
  fit.keeps_checkpoints = true;
  made->fit(steps, fit);  // an epoch is one batch
  made->close();
  return read_chain(secure.chain);
}

bool compare(std::int64_t steps, std::int64_t every) {
  const TemporaryFolder folder;
  SigningKey::make("bench").save(folder / "keys");
  Chain chain;
  const double run_s = bench::measured([&] { chain = run(folder.path(), steps, every); }).cpu;
  const double step_s = run_s / static_cast<double>(steps);
  const ChainAccounts suspect = accounts_of(std::span(&chain, 1));
  std::map<std::uint64_t, std::filesystem::path> kept;
  for (std::int64_t step = every; step < steps; step += every) {
    kept[static_cast<std::uint64_t>(step)] = folder / format("kept.step{}", step);
  }
  std::vector<double> costs;
  for (const AuditStretch& stretch : stretches_between(kept, static_cast<std::uint64_t>(steps))) {
    const double audit_s =
        bench::measured([&] {
          const Chain again = recompute(stretch, suspect, learner, folder / "scratch");
          const auto found = first_disagreement(suspect, accounts_of(std::span(&again, 1)),
                                                stretch.first, stretch.end);
          if (found) fail(ErrorCode::kInternal, "{}", disagreement_text(*found));
        }).cpu;
    costs.push_back(audit_s / static_cast<double>(stretch.end - stretch.first));
  }
  return bench::row(format("step of an audit, stretches of {}", every),
                    format("{:.1f} ms", 1e3 * bench::median(costs)),
                    format("{:.1f} ms in the run", 1e3 * step_s), bench::median(costs) / step_s,
                    "<= 1.2");
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_run = bench::has_flag(argc, argv, "--short");
  const bool check = bench::has_flag(argc, argv, "--check");
  std::printf("name | ours | reference | ratio | bar\n");
  const bool good = short_run ? compare(2, 1) : compare(50, 10);
  return check && !good ? 1 : 0;
}
