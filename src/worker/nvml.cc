#include "nvml.h"

#include <dlfcn.h>

#include <array>

#include <harmonics/base/error.h>

namespace harmonics::inline in_worker {
namespace {

// The few declarations of nvml.h that are needed, so that nothing of CUDA is needed to build. They
// are a stable ABI: the names carry their version.
using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;
constexpr std::size_t kNameBytes = 96;

class Library {
 public:
  explicit Library(void* handle) : handle_(handle) {}
  ~Library() { ::dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Calls a function of the library that answers with its status.
  template <typename... Args>
  void call(const char* name, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(::dlsym(handle_, name));
    const int status = function == nullptr ? -1 : function(args...);
    if (status == kSuccess) return;
    fail(ErrorCode::kUnavailable,
         "the NVIDIA management library is there, but {} {}: is the driver loaded? Name the GPUs "
         "with --gpus, --models and --memories",
         name, function == nullptr ? std::string("is not in it") : format("fails ({})", status));
  }

 private:
  void* handle_;
};

class Session {
 public:
  explicit Session(const Library& library) : library_(library) { library.call("nvmlInit_v2"); }
  ~Session() {
    try {
      library_.call("nvmlShutdown");
    } catch (const Error&) {  // it goes with the library
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  const Library& library_;
};

}  // namespace

std::optional<std::vector<DeviceSpec>> find_nvml_gpus(const std::string& library_name) {
  void* handle = ::dlopen(library_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  const Library library(handle);
  const Session session(library);
  unsigned count = 0;
  library.call("nvmlDeviceGetCount_v2", &count);
  std::vector<DeviceSpec> devices;
  for (unsigned i = 0; i < count && i < kMaxDevicesPerWorker; ++i) {
    Device device = nullptr;
    std::array<char, kNameBytes> name{};
    Memory memory{};
    library.call("nvmlDeviceGetHandleByIndex_v2", i, &device);
    library.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned>(name.size()));
    library.call("nvmlDeviceGetMemoryInfo", device, &memory);
    devices.push_back({std::to_string(i), name.data(), memory.total >> 20});
  }
  return devices;
}

}  // namespace harmonics::inline in_worker
