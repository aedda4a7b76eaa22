#include <algorithm>
#include <array>
#include <string>

#include "opencl_operation.h"

namespace harmonics::inline in_runtime {
namespace {

/// One that looks at each element alone; `kernel_` names the kernel.
class Pointwise final : public DeviceOperation {
 public:
  explicit Pointwise(std::string kernel) : kernel_(std::move(kernel)) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    DeviceTensor y = call.like_input();
    call.queue.run(kernel_.c_str(), y.size(), {call.inputs[0], y});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors& kept,
                                     const DeviceTensor& gradient) const override {
    DeviceTensor gx = call.like_input();
    call.queue.run((kernel_ + "_back").c_str(), gx.size(),
                   {call.inputs[0], kept.output, gradient, gx});
    return {gx};
  }

 private:
  std::string kernel_;
};

/// Over the last axis.
class Softmax final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    DeviceTensor y = call.like_input();
    const std::int64_t width = y.shape.back();
    call.queue.run("softmax", y.size() / width, {call.inputs[0], y, width});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors& kept,
                                     const DeviceTensor& gradient) const override {
    DeviceTensor gx = call.like_input();
    const std::int64_t width = gx.shape.back();
    call.queue.run("softmax_back", gx.size() / width, {kept.output, gradient, gx, width});
    return {gx};
  }
};

/// With one learned slope for all elements.
class Prelu final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    DeviceTensor y = call.like_input();
    call.queue.run("prelu", y.size(), {call.inputs[0], call.parameters[0], y});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    DeviceTensor gx = call.like_input();
    // gx first holds the terms of the weight's gradient, then its own values.
    call.queue.run("prelu_weight_terms", gx.size(), {call.inputs[0], gradient, gx});
    call.queue.run_groups("add_sums", 1, {gx, call.gradients[0], gx.size(), 0, 1});
    call.queue.run("prelu_back", gx.size(), {call.inputs[0], call.parameters[0], gradient, gx});
    return {gx};
  }
};

}  // namespace

DeviceOperationPtr make_device_activation(std::string_view name) {
  constexpr std::array<std::string_view, 7> pointwise = {
      "relu", "sigmoid", "gelu", "gelu_tanh", "quick_gelu", "selu", "silu"};
  if (std::ranges::find(pointwise, name) != pointwise.end()) {
    return std::make_unique<Pointwise>(std::string(name));
  }
  if (name == "tanh") return std::make_unique<Pointwise>("tanh_");
  if (name == "softmax") return std::make_unique<Softmax>();
  if (name == "prelu") return std::make_unique<Prelu>();
  return nullptr;
}

}  // namespace harmonics::inline in_runtime
