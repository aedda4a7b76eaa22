#include <harmonics/dispatch/device.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_dispatch {
namespace {

constexpr std::string_view kEmulatedPrefix = "emulated:";
constexpr int kMaxDeviceIndex = 1023;
constexpr double kMaxRowsPerSecond = 1e15;
constexpr double kMaxLatencySeconds = 3600;
constexpr std::size_t kMaxDeviceName = 128;

[[noreturn]] void fail_name(std::string_view name, std::string_view why) {
  fail(ErrorCode::kInvalidArgument,
       "device '{}': {}; there are cpu, cuda, cuda:N, mps, xpu, xpu:N and "
       "emulated:<rows per second>,<latency>, for instance emulated:2e6,1ms",
       name.substr(0, kMaxDeviceName), why);
}

struct Unit {
  std::string_view name;
  double seconds;
};

// "1ms", "50us", "0.001s" or a plain number of seconds.
std::optional<double> read_seconds(std::string_view text) {
  constexpr std::array<Unit, 4> kUnits = {{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  double unit = 1;
  for (const Unit& one : kUnits) {
    if (!text.ends_with(one.name)) continue;
    text.remove_suffix(one.name.size());
    unit = one.seconds;
    break;
  }
  const auto number = number_from<double>(text);
  return number ? std::optional(*number * unit) : std::nullopt;
}

WorkDevice parse_emulated(std::string_view name) {
  std::string_view body = name.substr(kEmulatedPrefix.size());
  body = body.substr(0, body.find('#'));
  const std::size_t comma = body.find(',');
  if (comma == std::string_view::npos) fail_name(name, "the latency is missing");
  const auto rate = number_from<double>(body.substr(0, comma));
  if (!rate || !std::isfinite(*rate) || *rate <= 0 || *rate > kMaxRowsPerSecond) {
    fail_name(name, "its rate is not a number of rows per second above 0 and up to 1e15");
  }
  const auto latency = read_seconds(body.substr(comma + 1));
  if (!latency || !std::isfinite(*latency) || *latency < 0 || *latency > kMaxLatencySeconds) {
    fail_name(name, "its latency is not a time from 0 to an hour");
  }
  WorkDevice device;
  device.name = name;
  device.kind = WorkDeviceKind::kEmulated;
  device.rows_per_second = *rate;
  device.latency = Nanoseconds(static_cast<std::int64_t>(std::llround(*latency * 1e9)));
  return device;
}

struct KindName {
  std::string_view name;
  WorkDeviceKind kind;
};

WorkDevice parse_torch_name(std::string_view name) {
  constexpr std::array<KindName, 4> kKinds = {{{"cpu", WorkDeviceKind::kCpu},
                                               {"cuda", WorkDeviceKind::kCuda},
                                               {"mps", WorkDeviceKind::kMps},
                                               {"xpu", WorkDeviceKind::kXpu}}};
  const std::size_t colon = name.find(':');
  const std::string_view word = name.substr(0, colon);
  const auto* const known = std::ranges::find(kKinds, word, &KindName::name);
  if (known == kKinds.end()) fail_name(name, "there is no such device");
  WorkDevice device;
  device.name = name;
  device.kind = known->kind;
  if (colon == std::string_view::npos) return device;
  const std::string_view digits = name.substr(colon + 1);
  const auto index = number_from<int>(digits);
  if (!index || *index < 0 || *index > kMaxDeviceIndex) {
    fail_name(name, "its number is not one from 0 to 1023");
  }
  device.index = *index;
  return device;
}

// One CPU and one mps, whatever number they are given.
std::string identity_of(const WorkDevice& device) {
  if (device.kind == WorkDeviceKind::kCpu) return "cpu";
  if (device.kind == WorkDeviceKind::kMps) return "mps";
  return device.name;
}

void warn_untested(const WorkDevice& device) {
  static std::atomic<bool> warned_mps{false};
  static std::atomic<bool> warned_xpu{false};
  if (device.kind == WorkDeviceKind::kMps && !warned_mps.exchange(true)) {
    log_warn("dispatch", "device '{}': mps is accepted but not tested", device.name);
  }
  if (device.kind == WorkDeviceKind::kXpu && !warned_xpu.exchange(true)) {
    log_warn("dispatch", "device '{}': xpu is accepted but not tested", device.name);
  }
}

}  // namespace

WorkDevice parse_work_device(std::string_view name) {
  if (name.size() > kMaxDeviceName) fail_name(name, "the name is too long");
  return name.starts_with(kEmulatedPrefix) ? parse_emulated(name) : parse_torch_name(name);
}

std::vector<WorkDevice> parse_work_devices(std::span<const std::string> names) {
  if (names.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "a scheduler needs at least one device, for instance \"cpu\"");
  }
  if (names.size() > kMaxWorkDevices) {
    fail(ErrorCode::kInvalidArgument, "{} devices, at most {} are possible", names.size(),
         kMaxWorkDevices);
  }
  std::vector<WorkDevice> devices;
  std::set<std::string> seen;
  std::set<WorkDeviceKind> without_index;
  for (const std::string& name : names) {
    devices.push_back(parse_work_device(name));
    if (!seen.insert(identity_of(devices.back())).second) {
      fail(ErrorCode::kInvalidArgument,
           "device '{}' is listed twice: list it once with a larger capacity (emulated devices "
           "differ by a label, as in emulated:1e6,0#b)",
           name);
    }
    if (devices.back().index < 0) without_index.insert(devices.back().kind);
  }
  for (const WorkDevice& device : devices) {
    if (device.index >= 0 && without_index.contains(device.kind) &&
        device.kind != WorkDeviceKind::kCpu) {
      fail(ErrorCode::kInvalidArgument,
           "device '{}' stands beside one of its kind without a number, which may be the same: "
           "number all of them",
           device.name);
    }
    warn_untested(device);
  }
  return devices;
}

Nanoseconds emulated_row_time(const WorkDevice& device, std::size_t rows) {
  return Nanoseconds(static_cast<std::int64_t>(
      std::llround(static_cast<double>(rows) / device.rows_per_second * 1e9)));
}

}  // namespace harmonics::inline in_dispatch
