#include <harmonics/schedule/remote_scheduler.h>

#include <utility>

#include "part_group.h"

namespace harmonics::inline in_schedule {

struct RemoteScheduler::State {
  PartGroup group;
};

RemoteScheduler::RemoteScheduler(HarmonicGraph part, const std::vector<RemoteBinding>& producers,
                                 const std::vector<RemoteBinding>& consumers,
                                 const DeploymentDescriptor& deploy, const RemoteOptions& options)
    : state_("scheduler",
             std::unique_ptr<State>(new State{PartGroup({std::move(part)}, deploy, options)})) {
  for (const RemoteBinding& binding : producers) bindProducer(binding);
  for (const RemoteBinding& binding : consumers) bindConsumer(binding);
}
RemoteScheduler::~RemoteScheduler() = default;
RemoteScheduler::RemoteScheduler(RemoteScheduler&&) noexcept = default;
RemoteScheduler& RemoteScheduler::operator=(RemoteScheduler&&) noexcept = default;

void RemoteScheduler::bindProducer(const std::string& name, ProducerPtr producer) {
  state_->group.bind_producer(name, std::move(producer));
}
void RemoteScheduler::bindConsumer(const std::string& name, ConsumerPtr consumer) {
  state_->group.bind_consumer(name, std::move(consumer));
}
void RemoteScheduler::bindProducer(const RemoteBinding& binding) {
  state_->group.bind_producer(binding);
}
void RemoteScheduler::bindConsumer(const RemoteBinding& binding) {
  state_->group.bind_consumer(binding);
}

void RemoteScheduler::join_replicas(ReductionEnds ends, const ReductionOptions& reduction) {
  state_->group.join_replicas(std::move(ends), reduction);
}

StepReport RemoteScheduler::step() { return state_->group.step(); }
FitReport RemoteScheduler::fit(std::int64_t epochs, const FitOptions& options) {
  return state_->group.fit(epochs, options);
}
Evaluation RemoteScheduler::evaluate(const NamedProducers& producers) {
  return state_->group.evaluate(producers);
}
NamedTensors RemoteScheduler::infer(const NamedTensors& inputs) {
  return state_->group.infer(inputs);
}

void RemoteScheduler::save_checkpoint(const std::filesystem::path& path) const {
  state_->group.ready().save(path);
}
void RemoteScheduler::load_checkpoint(const std::filesystem::path& path) {
  state_->group.ready().load(path);
}
bool RemoteScheduler::resume(const std::filesystem::path& path) {
  return state_->group.resume(path);
}
void RemoteScheduler::load_weights(const std::filesystem::path& path,
                                   const std::map<std::string, std::string>& names) {
  harmonics::load_weights(path, state_->group.row(), names);
}
const HarmonicGraph& RemoteScheduler::graph() const { return state_->group.parts().front(); }
NamedTensors RemoteScheduler::parameters() const { return state_->group.row().parameters(); }
std::string RemoteScheduler::weights_digest() const {
  return harmonics::weights_digest(parameters());
}
void RemoteScheduler::close() { state_->group.close(); }
std::string RemoteScheduler::proof() const { return state_->group.proof(); }
Nanoseconds RemoteScheduler::waited() const { return state_->group.waited(); }
const TrainingProgress& RemoteScheduler::progress() const {
  return state_->group.ready().progress();
}

}  // namespace harmonics::inline in_schedule
