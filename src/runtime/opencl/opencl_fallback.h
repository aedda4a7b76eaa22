// Operations that the OpenCL backend lacks, computed by libtorch on the CPU: inputs come down,
// results go up again (private to runtime).
#pragma once

#include <string>
#include <vector>

#include <harmonics/runtime/torch_layer.h>

#include "opencl_operation.h"

namespace harmonics::inline in_runtime {

/// `trainable` says for each of the layer's parameters whether it learns; what does not (running
/// statistics) is copied back after a training pass. Names the layer in its errors.
[[nodiscard]] DeviceOperationPtr make_fallback_layer(std::string name, LayerForward forward,
                                                     std::vector<bool> trainable);
[[nodiscard]] DeviceOperationPtr make_fallback_activation(std::string name,
                                                          TorchActivation activation,
                                                          std::size_t parameters);
/// `judges`: counts right and wrong predictions as cross_entropy does.
[[nodiscard]] DeviceLossPtr make_fallback_loss(std::string name, TorchLoss loss, bool judges);

}  // namespace harmonics::inline in_runtime
