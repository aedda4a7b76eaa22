// Ready-made functions for dispatchers over libtorch: TorchScript modules and Harmonics graphs on
// CPUs and GPUs, with copies that overlap the computing. Target harmonics::dispatch_torch; no
// header of libtorch is needed here.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/dispatch/tensor_results.h>
#include <harmonics/dispatch/work_dispatcher.h>
#include <harmonics/graph/graph.h>

namespace harmonics::inline in_dispatch {

/// Tensors by name that lie on a device of libtorch. A value; copying shares them.
class DeviceTensors {
 public:
  struct Held;
  std::shared_ptr<Held> held;
};

/// Values and derivatives on a device.
struct DeviceDerivatives {
  DeviceTensors values;
  std::map<std::string, DeviceTensors, std::less<>> derivatives;
};

using TorchFunctions = WorkFunctions<DeviceTensors, DeviceTensors, TensorMap, TensorMap, TensorMap>;
using TorchDispatcher =
    WorkDispatcher<DeviceTensors, DeviceTensors, TensorMap, TensorMap, TensorMap>;
using TorchDerivativeFunctions =
    WorkFunctions<DeviceTensors, DeviceDerivatives, ValuesAndDerivatives, TensorMap,
                  ValuesAndDerivatives>;
using TorchDerivativeDispatcher =
    WorkDispatcher<DeviceTensors, DeviceDerivatives, ValuesAndDerivatives, TensorMap,
                   ValuesAndDerivatives>;

/// Run by each lane before anything else: binds the thread to its device and, on a GPU, to a
/// stream of its own, and sets how many threads its operations use. A device that libtorch does not
/// have here is an Error (kFailedPrecondition) that says what there is. Emulated devices compute on
/// the CPU.
void init_torch_lane(const WorkDevice& device);

/// Copies a sub-batch to the lane's device: through its ring of pinned buffers on a GPU, so that
/// the copy runs beside the computing of the device's other lanes; on a CPU it shares memory.
[[nodiscard]] DeviceTensors copy_in(TensorMap&& tensors, const WorkDevice& device);
/// Brings a result back, and returns when it is there.
[[nodiscard]] TensorMap copy_out(DeviceTensors&& tensors);
[[nodiscard]] ValuesAndDerivatives copy_derivatives_out(DeviceDerivatives&& result);

struct ScriptModel {
  /// What torch.jit.save wrote.
  std::filesystem::path file;
  /// Names of the arguments of `forward`, in order; empty: the inputs in the order of their names.
  std::vector<std::string> inputs = {};
  /// Names of what it returns: one tensor, a tuple or list of them, or a dictionary (whose own
  /// names then count). Empty: "output", or "output0", "output1", …
  std::vector<std::string> outputs = {};
  /// The batch axis of outputs.
  int axis = 0;
};

/// Runs a TorchScript module, loaded once per device, without gradients. Failures of libtorch
/// become an Error: kResourceExhausted for memory, kUnavailable for a broken device, else kUnknown.
/// A file that cannot be read is an Error (kInvalidArgument) out of the dispatcher's constructor.
[[nodiscard]] TorchFunctions script_functions(const ScriptModel& model);

/// The same with the first derivatives of every output by every floating input, row by row: the
/// block of `out` by `in` has shape {rows, axes of an output row…, axes of an input row…}. An
/// unbatched input counts as its own copy in every row. Batch axis 0; rows of an output have at
/// most kMaxDerivativeColumns numbers.
[[nodiscard]] TorchDerivativeFunctions script_derivative_functions(const ScriptModel& model);
inline constexpr std::int64_t kMaxDerivativeColumns = 4096;

struct RuntimeModel {
  HarmonicGraph graph;
  /// A checkpoint or any safetensors file; empty: start weights from the seed.
  std::filesystem::path weights = {};
  std::uint64_t seed = 1;
};

/// Runs a CycleRuntime per lane: producers by name in, consumers by name out. CPU and CUDA.
[[nodiscard]] ValueFunctions runtime_functions(RuntimeModel model);

}  // namespace harmonics::inline in_dispatch
