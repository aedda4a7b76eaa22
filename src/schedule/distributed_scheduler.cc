#include <harmonics/schedule/distributed_scheduler.h>

#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/stage_chain.h>

#include "part_options.h"
#include "pipeline_runner.h"
#include "replica_runner.h"

namespace harmonics {

struct DistributedScheduler::State {
  State(const std::vector<HarmonicGraph>& parts, const DeploymentDescriptor& deploy,
        const RuntimeOptions& given, const PipelineOptions& pipeline)
      : options(given),
        chain(parts, part_options(parts.size(), deploy, options)),
        trainer(chain, options.seed) {
    // With one part or one micro-batch there is nothing to overlap.
    const bool overlaps = parts.size() > 1 && options.micro_batches > 1 && chain.learns();
    if (overlaps && pipeline.order != PipelineOrder::Sequential) {
      chain.set_runner(make_pipeline_runner(chain, pipeline, options.threads));
    }
  }

  RuntimeOptions options;
  StageChain chain;
  Trainer trainer;
  bool is_replica = false;
};

DistributedScheduler::DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                           const DeploymentDescriptor& deploy,
                                           const RuntimeOptions& options,
                                           const PipelineOptions& pipeline)
    : state_(std::make_unique<State>(parts, deploy, options, pipeline)) {}
DistributedScheduler::~DistributedScheduler() = default;
DistributedScheduler::DistributedScheduler(DistributedScheduler&&) noexcept = default;
DistributedScheduler& DistributedScheduler::operator=(DistributedScheduler&&) noexcept = default;

void DistributedScheduler::bindProducer(const std::string& name, ProducerPtr producer) {
  if (producer == nullptr)
    fail(ErrorCode::kInvalidArgument, "producer '{}' is bound to nothing", name);
  state_->trainer.bind_producer(name, std::move(producer));
}
void DistributedScheduler::bindConsumer(const std::string& name, ConsumerPtr consumer) {
  if (consumer == nullptr)
    fail(ErrorCode::kInvalidArgument, "consumer '{}' is bound to nothing", name);
  state_->trainer.bind_consumer(name, std::move(consumer));
}
void DistributedScheduler::join_replicas(ReductionEnds ends, const ReductionOptions& reduction) {
  if (state_->is_replica) {
    fail(ErrorCode::kFailedPrecondition, "this scheduler is a replica already");
  }
  Reducer reducer(std::move(ends), reduction);
  state_->chain.set_runner(std::make_unique<ReplicaRunner>(state_->chain.take_runner(),
                                                           std::move(reducer), state_->options));
  state_->is_replica = true;
}
StepReport DistributedScheduler::step() { return state_->trainer.step(); }
FitReport DistributedScheduler::fit(std::int64_t epochs, const FitOptions& options) {
  return state_->trainer.fit(epochs, options);
}
Evaluation DistributedScheduler::evaluate(const NamedProducers& producers) {
  return state_->trainer.evaluate(producers);
}
NamedTensors DistributedScheduler::infer(const NamedTensors& inputs) {
  return state_->chain.infer(inputs);
}
void DistributedScheduler::save_checkpoint(const std::filesystem::path& path) const {
  state_->trainer.save(path);
}
void DistributedScheduler::load_checkpoint(const std::filesystem::path& path) {
  state_->trainer.load(path);
}
void DistributedScheduler::load_weights(const std::filesystem::path& path,
                                        const std::map<std::string, std::string>& names) {
  harmonics::load_weights(path, state_->chain, names);
}
std::size_t DistributedScheduler::part_count() const { return state_->chain.stages().size(); }
NamedTensors DistributedScheduler::parameters() const { return state_->chain.parameters(); }
std::string DistributedScheduler::weights_digest() const {
  return harmonics::weights_digest(parameters());
}
const TrainingProgress& DistributedScheduler::progress() const {
  return state_->trainer.progress();
}

}  // namespace harmonics
