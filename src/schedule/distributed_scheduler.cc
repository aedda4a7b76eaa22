#include <harmonics/schedule/distributed_scheduler.h>

#include <utility>

#include "part_group.h"

namespace harmonics::inline in_schedule {

struct DistributedScheduler::State {
  PartGroup group;
};

namespace {

RemoteOptions options_of(const RuntimeOptions& runtime, const PipelineOptions& pipeline) {
  RemoteOptions options;
  options.runtime = runtime;
  options.pipeline = pipeline;
  return options;
}

}  // namespace

DistributedScheduler::DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                           const DeploymentDescriptor& deploy,
                                           const RuntimeOptions& options,
                                           const PipelineOptions& pipeline)
    : DistributedScheduler(parts, deploy, options_of(options, pipeline)) {}
DistributedScheduler::DistributedScheduler(const std::vector<HarmonicGraph>& parts,
                                           const DeploymentDescriptor& deploy,
                                           const RemoteOptions& options)
    : state_("scheduler", std::unique_ptr<State>(new State{PartGroup(parts, deploy, options)})) {
  if (state_->group.is_whole()) static_cast<void>(state_->group.ready());
}
DistributedScheduler::~DistributedScheduler() = default;
DistributedScheduler::DistributedScheduler(DistributedScheduler&&) noexcept = default;
DistributedScheduler& DistributedScheduler::operator=(DistributedScheduler&&) noexcept = default;

void DistributedScheduler::bindProducer(const std::string& name, ProducerPtr producer) {
  state_->group.bind_producer(name, std::move(producer));
}
void DistributedScheduler::bindConsumer(const std::string& name, ConsumerPtr consumer) {
  state_->group.bind_consumer(name, std::move(consumer));
}
void DistributedScheduler::bindProducer(const RemoteBinding& binding) {
  state_->group.bind_producer(binding);
}
void DistributedScheduler::bindConsumer(const RemoteBinding& binding) {
  state_->group.bind_consumer(binding);
}
void DistributedScheduler::bindProducer(const std::string& boundary, TransportPtr end) {
  state_->group.bind_producer(boundary, std::move(end));
}
void DistributedScheduler::bindConsumer(const std::string& boundary, TransportPtr end) {
  state_->group.bind_consumer(boundary, std::move(end));
}
void DistributedScheduler::join_replicas(ReductionEnds ends, const ReductionOptions& reduction) {
  state_->group.join_replicas(std::move(ends), reduction);
}

StepReport DistributedScheduler::step() { return state_->group.step(); }
FitReport DistributedScheduler::fit(std::int64_t epochs, const FitOptions& options) {
  return state_->group.fit(epochs, options);
}
Evaluation DistributedScheduler::evaluate(const NamedProducers& producers) {
  return state_->group.evaluate(producers);
}
NamedTensors DistributedScheduler::infer(const NamedTensors& inputs) {
  return state_->group.infer(inputs);
}
std::vector<NamedTensors> DistributedScheduler::infer(const std::vector<NamedTensors>& batches) {
  return state_->group.infer(std::span(batches));
}

void DistributedScheduler::save_checkpoint(const std::filesystem::path& path) const {
  state_->group.ready().save(path);
}
void DistributedScheduler::load_checkpoint(const std::filesystem::path& path) {
  state_->group.ready().load(path);
}
bool DistributedScheduler::resume(const std::filesystem::path& path) {
  return state_->group.resume(path);
}
void DistributedScheduler::load_weights(const std::filesystem::path& path,
                                        const std::map<std::string, std::string>& names) {
  harmonics::load_weights(path, state_->group.row(), names);
}
std::size_t DistributedScheduler::part_count() const { return state_->group.parts().size(); }
NamedTensors DistributedScheduler::parameters() const { return state_->group.row().parameters(); }
std::string DistributedScheduler::weights_digest() const {
  return harmonics::weights_digest(parameters());
}
void DistributedScheduler::close() { state_->group.close(); }
std::string DistributedScheduler::proof() const { return state_->group.proof(); }
const TrainingProgress& DistributedScheduler::progress() const {
  return state_->group.ready().progress();
}

}  // namespace harmonics::inline in_schedule
