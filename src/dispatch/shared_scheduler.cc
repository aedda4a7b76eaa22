#include <harmonics/dispatch/shared_scheduler.h>

namespace harmonics::inline in_dispatch {
namespace {

std::vector<SharedDevice> shared_devices(const StaticHybridScheduler& scheduler) {
  std::vector<SharedDevice> devices;
  for (std::size_t d = 0; d < scheduler.devices().size(); ++d) {
    devices.push_back({scheduler.devices()[d].name, scheduler.capacity(d)});
  }
  return devices;
}

}  // namespace

SharedScheduler::SharedScheduler(SharedConfig config)
    : StaticHybridScheduler(std::move(config.devices), std::move(config.batch_sizes),
                            std::move(config.capacities)),
      timeout_(config.lease_timeout) {
  if (config.mode == SharedMode::kLease) {
    leases_ =
        std::make_unique<LeaseTable>("leases-" + config.name, shared_devices(*this), config.weight);
  }
}

SharedScheduler::~SharedScheduler() = default;

bool SharedScheduler::enter(std::size_t device, std::size_t rows) {
  if (!leases_) return false;
  leases_->acquire(device, rows, timeout_);
  return true;
}

void SharedScheduler::leave(std::size_t device, std::size_t rows) {
  if (leases_) leases_->release(device, rows);
}

std::size_t SharedScheduler::held_rows(std::size_t device) const {
  return leases_ ? leases_->held_rows(device) : 0;
}

}  // namespace harmonics::inline in_dispatch
