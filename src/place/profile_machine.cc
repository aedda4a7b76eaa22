#include <harmonics/place/profile_machine.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <vector>

#include <harmonics/base/file.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_place {
namespace {

constexpr std::int64_t kBytesPerKilobyte = 1024;

/// The first line of a small system file; empty when it cannot be read.
std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The text behind "key:" in a file of such lines; empty when there is none.
std::string value_of(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t end = line.find_last_not_of(" \t", colon - 1);
    if (line.substr(0, end + 1) != key) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

/// The kernel writes -1 for a speed that it does not know.
std::optional<std::int64_t> known_number(std::string_view text) {
  const auto value = leading_number<std::int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

std::optional<std::int64_t> left_in_group(const std::filesystem::path& root) {
  const auto most = known_number(first_line(root / "sys/fs/cgroup/memory.max"));
  const auto used = known_number(first_line(root / "sys/fs/cgroup/memory.current"));
  if (!most || !used) return std::nullopt;
  return std::max<std::int64_t>(0, *most - *used);
}

void erase_all(std::string& text, std::string_view piece) {
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at)) {
    text[at] = ' ';
    text.erase(at + 1, piece.size() - 1);
  }
}

// The few calls of the CUDA driver that tell about memory, found at run time: a machine without a
// card has no such library. Their names are fixed by the driver's binary interface.
class CudaDriver {
 public:
  CudaDriver() : library_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  ~CudaDriver() {
    if (library_ != nullptr) ::dlclose(library_);
  }
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  [[nodiscard]] std::optional<std::int64_t> free_bytes(std::uint32_t index) const {
    const auto init = find<int (*)(unsigned)>("cuInit");
    const auto device_get = find<int (*)(int*, int)>("cuDeviceGet");
    const auto retain = find<int (*)(void**, int)>("cuDevicePrimaryCtxRetain");
    const auto release = find<int (*)(int)>("cuDevicePrimaryCtxRelease_v2");
    const auto push = find<int (*)(void*)>("cuCtxPushCurrent_v2");
    const auto pop = find<int (*)(void**)>("cuCtxPopCurrent_v2");
    const auto memory = find<int (*)(std::size_t*, std::size_t*)>("cuMemGetInfo_v2");
    if (!init || !device_get || !retain || !release || !push || !pop || !memory) return {};
    int device = 0;
    void* context = nullptr;
    if (init(0) != 0 || device_get(&device, static_cast<int>(index)) != 0) return {};
    if (retain(&context, device) != 0) return {};
    std::optional<std::int64_t> answer;
    if (push(context) == 0) {
      std::size_t free = 0;
      std::size_t total = 0;
      if (memory(&free, &total) == 0) answer = static_cast<std::int64_t>(free);
      pop(&context);
    }
    release(device);
    return answer;
  }

 private:
  template <typename Function>
  [[nodiscard]] Function find(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library_, name));
  }

  void* library_;
};

}  // namespace

std::string device_type_name(std::string_view model) {
  std::string text(model.substr(0, model.find('@')));
  for (const std::string_view piece : {"(R)", "(r)", "(TM)", "(tm)", " CPU", " Processor"}) {
    erase_all(text, piece);
  }
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_';
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  return name;
}

std::string cpu_type_name(const std::filesystem::path& root) {
  std::string name = device_type_name(value_of(root / "proc/cpuinfo", "model name"));
  if (name.empty()) name = device_type_name(value_of(root / "proc/cpuinfo", "Model"));
  return name.empty() ? "cpu" : name;
}

std::string gpu_type_name(std::uint32_t index, const std::filesystem::path& root) {
  // Named by bus address, in which order they count.
  const std::vector<std::filesystem::path> cards = list_folder(root / "proc/driver/nvidia/gpus");
  std::string name;
  if (index < cards.size())
    name = device_type_name(value_of(cards[index] / "information", "Model"));
  return name.empty() ? "gpu" : name;
}

std::optional<std::int64_t> free_memory_bytes(const std::filesystem::path& root) {
  const auto kilobytes = known_number(value_of(root / "proc/meminfo", "MemAvailable"));
  const auto group = left_in_group(root);
  if (!kilobytes) return group;
  return std::min(*kilobytes * kBytesPerKilobyte, group.value_or(*kilobytes * kBytesPerKilobyte));
}

std::optional<std::int64_t> free_gpu_memory_bytes(std::uint32_t index) {
  return CudaDriver().free_bytes(index);
}

std::optional<double> interface_speed_mbps(const std::filesystem::path& root) {
  std::optional<double> fastest;
  for (const std::filesystem::path& entry : list_folder(root / "sys/class/net")) {
    if (first_line(entry / "operstate") != "up") continue;
    const auto speed = known_number(first_line(entry / "speed"));
    if (speed && *speed > 0) fastest = std::max(fastest.value_or(0), static_cast<double>(*speed));
  }
  return fastest;
}

}  // namespace harmonics::inline in_place
