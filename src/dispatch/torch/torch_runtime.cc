// Harmonics graphs under a dispatcher: one CycleRuntime per lane.
#include <mutex>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/dispatch/torch_work.h>
#include <harmonics/schedule/cycle_runtime.h>
#include <harmonics/tensor/torch.h>

#include "torch_lane.h"

namespace harmonics::inline in_dispatch {
namespace {

class Runtimes {
 public:
  explicit Runtimes(RuntimeModel model) : model_(std::move(model)) {}

  void make(const WorkDevice& device) {
    if (device.kind == WorkDeviceKind::kMps || device.kind == WorkDeviceKind::kXpu) {
      fail(ErrorCode::kUnimplemented, "device '{}': a CycleRuntime runs on cpu and cuda",
           device.name);
    }
    RuntimeOptions options;
    options.seed = model_.seed;
    options.threads = device.compute_threads;
    options.strict = true;
    if (device.kind == WorkDeviceKind::kCuda) {
      options.backend = Backend::GPU;
      options.device_index = static_cast<std::uint32_t>(std::max(0, device.index));
    }
    auto runtime = std::make_unique<CycleRuntime>(model_.graph, options);
    if (!model_.weights.empty()) runtime->load_weights(model_.weights);
    const std::lock_guard lock(mutex_);
    runtimes_[{device.name, device.lane}] = std::move(runtime);
  }

  CycleRuntime& of(const WorkDevice& device) {
    const std::lock_guard lock(mutex_);
    return *runtimes_.at({device.name, device.lane});
  }

 private:
  RuntimeModel model_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::unique_ptr<CycleRuntime>> runtimes_;
};

}  // namespace

ValueFunctions runtime_functions(RuntimeModel model) {
  const auto runtimes = std::make_shared<Runtimes>(std::move(model));
  ValueFunctions functions;
  functions.init_thread = [runtimes](const WorkDevice& device) {
    init_torch_lane(device);
    runtimes->make(device);
  };
  // Onto the device through the lane's ring; the runtime then finds its inputs there.
  functions.preprocess = [](TensorMap&& inputs, const WorkDevice& device) {
    if (device.kind != WorkDeviceKind::kCuda) return std::move(inputs);
    const DeviceTensors copied = copy_in(std::move(inputs), device);
    TensorMap there;
    for (const auto& [name, tensor] : copied.held->tensors) {
      there.emplace(name, from_torch(tensor));
    }
    return there;
  };
  functions.run = [runtimes](TensorMap&& inputs, const WorkDevice& device) {
    TensorMap outputs;
    with_torch_errors([&] { outputs = runtimes->of(device).infer(inputs); });
    return outputs;
  };
  functions.sink = std::make_shared<TensorMapSink>(0);
  return functions;
}

}  // namespace harmonics::inline in_dispatch
