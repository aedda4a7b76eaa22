#include <harmonics/cluster/worker.h>

#include <algorithm>
#include <set>

#include <harmonics/base/error.h>

namespace harmonics::inline in_cluster {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The digits at the start of `text`, without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

void check_text(std::string_view what, std::string_view text) {
  if (text.size() > kMaxWorkerTextBytes) {
    fail(ErrorCode::kInvalidArgument, "worker: {} has {} bytes, at most {} are allowed", what,
         text.size(), kMaxWorkerTextBytes);
  }
}

void check_term(std::string_view what, std::string_view name) {
  if (!name.empty() && name.size() <= kMaxTermBytes) return;
  fail(ErrorCode::kInvalidArgument, "worker: the name of {} has {} bytes, must have 1 to {}", what,
       name.size(), kMaxTermBytes);
}

}  // namespace

std::string natural_key(std::string_view name) {
  std::string key;
  while (!name.empty()) {
    if (is_digit(name.front())) {
      const std::string_view digits = take_number(name);
      key += '0';  // Where a digit stands among other letters.
      key += static_cast<char>(std::min<std::size_t>(digits.size(), 0xff));
      key += digits;
    } else {
      key += name.front();
      name.remove_prefix(1);
    }
  }
  return key;
}

bool natural_less(std::string_view left, std::string_view right) {
  const int order = natural_key(left).compare(natural_key(right));
  return order != 0 ? order < 0 : left < right;
}

void check_worker(const WorkerSpec& spec) {
  check_text("the name", spec.name);
  check_text("the address", spec.address);
  check_text("the identity", spec.identity);
  if (spec.resources.size() > kMaxResources || spec.labels.size() > kMaxLabels) {
    fail(ErrorCode::kInvalidArgument,
         "worker: {} kinds of resources and {} labels, at most {} and {} are allowed",
         spec.resources.size(), spec.labels.size(), kMaxResources, kMaxLabels);
  }
  std::set<std::string_view> terms;
  for (const auto& [name, count] : spec.resources) {
    check_term("a resource", name);
    if (count > kMaxResourceCount || !terms.insert(name).second) {
      fail(ErrorCode::kInvalidArgument,
           "worker: the resource '{}' is named twice, or there are more than {} of it", name,
           kMaxResourceCount);
    }
  }
  for (const auto& [key, value] : spec.labels) {
    check_term("a label", key);
    check_text("a label", value);
  }
  if (spec.devices.size() > kMaxDevicesPerWorker) {
    fail(ErrorCode::kInvalidArgument, "worker: {} devices, at most {} are allowed",
         spec.devices.size(), kMaxDevicesPerWorker);
  }
  std::set<std::string_view> names;
  for (const DeviceSpec& device : spec.devices) {
    check_text("a device's name", device.name);
    check_text("a device's model", device.model);
    if (!names.insert(device.name).second) {
      fail(ErrorCode::kInvalidArgument, "worker: the device '{}' is named twice", device.name);
    }
  }
}

}  // namespace harmonics::inline in_cluster
