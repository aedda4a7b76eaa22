// Layers, activations and losses on an OpenCL device, with gradients by hand (private to runtime).
//
// One class per kind of operation. They hold attributes and no tensors: what a backward pass needs
// from its forward pass lies in a KeptTensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <harmonics/graph/layer_type.h>

#include "opencl_queue.h"

namespace harmonics::inline in_runtime {

/// What one call of an operation sees. Tensors carry a leading batch axis.
struct DeviceCall {
  OpenClQueue& queue;
  std::span<const DeviceTensor> inputs;
  /// The operation's parameters and, in a backward pass, their gradients, to which it adds.
  std::span<const DeviceTensor> parameters;
  std::span<const DeviceTensor> gradients;
  /// Which inputs want a gradient; empty in a forward pass.
  const std::vector<bool>& wanted;
  bool training = false;
  /// For chance: see LayerCall.
  std::uint64_t key = 0;
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;

  /// A float32 tensor like the first input.
  [[nodiscard]] DeviceTensor like_input() const { return queue.empty(inputs[0].shape); }
  [[nodiscard]] std::int64_t rows() const { return inputs[0].shape[0]; }
};

/// What a forward pass leaves for its backward pass.
struct KeptTensors {
  DeviceTensor output;
  std::vector<DeviceTensor> tensors;
  /// For operations that run elsewhere.
  std::shared_ptr<void> foreign;
};

class DeviceOperation {
 public:
  virtual ~DeviceOperation() = default;
  [[nodiscard]] virtual DeviceTensor forward(const DeviceCall& call, KeptTensors& kept) const = 0;
  /// The gradients of the inputs; undefined for those that want none.
  [[nodiscard]] virtual std::vector<DeviceTensor> backward(const DeviceCall& call,
                                                           const KeptTensors& kept,
                                                           const DeviceTensor& gradient) const = 0;
};
using DeviceOperationPtr = std::unique_ptr<DeviceOperation>;

/// What a loss says of a batch.
struct DeviceLosses {
  /// One number per sample.
  DeviceTensor samples;
  /// 1 or 0 per prediction (int32), -1 for a class id that is none; undefined where not judged.
  DeviceTensor right;
  std::shared_ptr<void> foreign;
};

class DeviceLoss {
 public:
  virtual ~DeviceLoss() = default;
  [[nodiscard]] virtual DeviceLosses forward(OpenClQueue& queue, const DeviceTensor& prediction,
                                             const DeviceTensor& target) const = 0;
  /// The gradient of `scale` times the sum over the samples.
  [[nodiscard]] virtual DeviceTensor backward(OpenClQueue& queue, const DeviceTensor& prediction,
                                              const DeviceTensor& target,
                                              const DeviceLosses& losses, float scale) const = 0;
};
using DeviceLossPtr = std::unique_ptr<DeviceLoss>;

// Null where the device has no such operation, or not for these dtypes.
[[nodiscard]] DeviceOperationPtr make_device_layer(const LayerQuery& query,
                                                   const TensorSpec& output);
[[nodiscard]] DeviceOperationPtr make_device_activation(std::string_view name);
[[nodiscard]] DeviceLossPtr make_device_loss(std::string_view name, const TensorSpec& prediction,
                                             const TensorSpec& target);

// By family, for make_device_layer.
[[nodiscard]] DeviceOperationPtr make_device_window(const LayerQuery& query,
                                                    const TensorSpec& output);
[[nodiscard]] DeviceOperationPtr make_device_norm(const LayerQuery& query);

}  // namespace harmonics::inline in_runtime
