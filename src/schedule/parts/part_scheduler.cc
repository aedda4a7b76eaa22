#include <harmonics/schedule/part_scheduler.h>

#include <utility>

#include "part_group.h"

namespace harmonics::inline in_schedule {

PartScheduler::PartScheduler(std::vector<HarmonicGraph> parts, const DeploymentDescriptor& deploy,
                             const RemoteOptions& options)
    : group_("scheduler", std::make_unique<PartGroup>(std::move(parts), deploy, options)) {}
PartScheduler::~PartScheduler() = default;
PartScheduler::PartScheduler(PartScheduler&&) noexcept = default;
PartScheduler& PartScheduler::operator=(PartScheduler&&) noexcept = default;

void PartScheduler::bindProducer(const std::string& name, ProducerPtr producer) {
  group_->bind_producer(name, std::move(producer));
}
void PartScheduler::bindConsumer(const std::string& name, ConsumerPtr consumer) {
  group_->bind_consumer(name, std::move(consumer));
}
void PartScheduler::bindProducer(const RemoteBinding& binding) { group_->bind_producer(binding); }
void PartScheduler::bindConsumer(const RemoteBinding& binding) { group_->bind_consumer(binding); }
void PartScheduler::bindProducer(const std::string& boundary, TransportPtr end) {
  group_->bind_producer(boundary, std::move(end));
}
void PartScheduler::bindConsumer(const std::string& boundary, TransportPtr end) {
  group_->bind_consumer(boundary, std::move(end));
}
void PartScheduler::join_replicas(ReductionEnds ends, const ReductionOptions& reduction) {
  group_->join_replicas(std::move(ends), reduction);
}

void PartScheduler::join_company(std::unique_ptr<ReplicaCompany> company,
                                 const ReductionOptions& reduction) {
  group_->join_company(std::move(company), reduction);
}

bool PartScheduler::resume(const std::filesystem::path& path) {
  return guarded([&](Trainer& trainer) {
    RemoteAgreement* const others = group_->others();
    if (others == nullptr) return Learner::resume(path);
    const auto steps = static_cast<std::uint64_t>(trainer.row().state().steps);
    const SavedStep saved = others->choose_saved_step(path, steps);
    if (saved.stages.empty()) return false;
    try {
      trainer.load(path.parent_path(), saved);
    } catch (const Error& error) {
      // Cut into as many parts as before, but elsewhere: what the own file lacks is in the others.
      const auto& whole = others->saved_step();
      if (error.code() != ErrorCode::kFailedPrecondition || !whole || *whole == saved) throw;
      trainer.load(path.parent_path(), *whole);
    }
    return true;
  });
}

void PartScheduler::close() {
  if (group_->is_secure()) Learner::close();
}
std::string PartScheduler::proof() const { return group_->proof(); }
Trainer& PartScheduler::trainer() const { return group_->ready(); }

}  // namespace harmonics::inline in_schedule
