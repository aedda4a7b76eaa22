#include "device_holders.h"

#include <sstream>

#include <harmonics/cluster/task_environment.h>

namespace harmonics::inline in_worker {
namespace {

std::vector<std::string> devices_of(const RunRecord& run) {
  std::vector<std::string> devices;
  for (const auto& [key, value] : run.environment) {
    if (key != kTaskDevicesVariable) continue;
    std::istringstream names(value);
    for (std::string name; std::getline(names, name, ',');) devices.push_back(name);
  }
  return devices;
}

}  // namespace

std::string DeviceHolders::before(const RunRecord& run) const {
  // Attempts are called "<task>.<number>"; all of a task stand together.
  const std::string task = run.attempt.substr(0, run.attempt.find('.') + 1);
  for (auto at = devices_.lower_bound(task); at != devices_.end() && at->first.starts_with(task);
       ++at) {
    if (at->first != run.attempt) return at->first;
  }
  for (const std::string& device : devices_of(run)) {
    const auto holder = holders_.find(device);
    if (holder != holders_.end() && holder->second != run.attempt) return holder->second;
  }
  return {};
}

void DeviceHolders::add(const RunRecord& run) {
  std::vector<std::string>& devices = devices_[run.attempt];
  devices = devices_of(run);
  for (const std::string& device : devices) holders_.emplace(device, run.attempt);
}

void DeviceHolders::remove(const std::string& attempt) {
  const auto known = devices_.find(attempt);
  if (known == devices_.end()) return;
  for (const std::string& device : known->second) {
    const auto holder = holders_.find(device);
    if (holder != holders_.end() && holder->second == attempt) holders_.erase(holder);
  }
  devices_.erase(known);
}

}  // namespace harmonics::inline in_worker
