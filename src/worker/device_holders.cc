#include "device_holders.h"

#include <cmath>
#include <sstream>

#include <harmonics/base/number_text.h>
#include <harmonics/cluster/needs.h>
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

/// Of each of its devices.
std::uint32_t units_of(const RunRecord& run) {
  for (const auto& [key, value] : run.environment) {
    if (key != kGpuShareVariable) continue;
    const auto share = number_from<double>(value);
    if (share && *share > 0 && *share < 1) {
      return static_cast<std::uint32_t>(std::lround(*share * kWholeDevice));
    }
  }
  return kWholeDevice;
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
    const auto holders = holders_.find(device);
    if (holders == holders_.end()) continue;
    std::uint32_t units = units_of(run);
    std::string first;
    for (const auto& [attempt, held] : holders->second) {
      if (attempt == run.attempt) continue;
      if (first.empty()) first = attempt;
      units += held;
    }
    if (units > kWholeDevice && !first.empty()) return first;
  }
  return {};
}

void DeviceHolders::add(const RunRecord& run) {
  std::vector<std::string>& devices = devices_[run.attempt];
  devices = devices_of(run);
  for (const std::string& device : devices) holders_[device][run.attempt] = units_of(run);
}

void DeviceHolders::remove(const std::string& attempt) {
  const auto known = devices_.find(attempt);
  if (known == devices_.end()) return;
  for (const std::string& device : known->second) {
    const auto holders = holders_.find(device);
    if (holders == holders_.end()) continue;
    holders->second.erase(attempt);
    if (holders->second.empty()) holders_.erase(holders);
  }
  devices_.erase(known);
}

}  // namespace harmonics::inline in_worker
