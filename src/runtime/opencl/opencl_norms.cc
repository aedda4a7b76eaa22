#include "opencl_operation.h"

namespace harmonics::inline in_runtime {
namespace {

class LayerNorm final : public DeviceOperation {
 public:
  explicit LayerNorm(double epsilon) : epsilon_(static_cast<float>(epsilon)) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors& kept) const override {
    const DeviceTensor& x = call.inputs[0];
    const std::int64_t width = x.shape.back(), rows = x.size() / width;
    DeviceTensor y = call.like_input();
    DeviceTensor means = call.queue.empty({rows}), scales = call.queue.empty({rows});
    call.queue.run("layer_norm", rows,
                   {x, call.parameters[0], call.parameters[1], y, means, scales, width, epsilon_});
    kept.tensors = {means, scales};
    return y;
  }

  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors& kept,
                                     const DeviceTensor& gradient) const override {
    const DeviceTensor& x = call.inputs[0];
    const std::int64_t width = x.shape.back(), rows = x.size() / width;
    const DeviceTensor &means = kept.tensors[0], &scales = kept.tensors[1];
    call.queue.run_groups("layer_norm_weights", width,
                          {x, means, scales, gradient, call.gradients[0], call.gradients[1], rows});
    if (!call.wanted[0]) return {DeviceTensor()};
    DeviceTensor gx = call.like_input();
    call.queue.run("layer_norm_back", rows,
                   {x, call.parameters[0], means, scales, gradient, gx, width});
    return {gx};
  }

 private:
  float epsilon_;
};

class BatchNorm final : public DeviceOperation {
 public:
  BatchNorm(double epsilon, double momentum)
      : epsilon_(static_cast<float>(epsilon)), momentum_(static_cast<float>(momentum)) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors& kept) const override {
    const DeviceTensor& x = call.inputs[0];
    const std::int64_t channels = x.shape[1], area = area_of(x);
    DeviceTensor y = call.like_input();
    DeviceTensor means = call.parameters[2], scales = call.queue.empty({channels});
    if (call.training) {
      means = call.queue.empty({channels});
      call.queue.run_groups("batch_norm_statistics", channels,
                            {x, means, scales, call.parameters[2], call.parameters[3], call.rows(),
                             area, momentum_, epsilon_});
    } else {
      call.queue.run("batch_norm_scales", channels, {call.parameters[3], scales, epsilon_});
    }
    call.queue.run("batch_norm", x.size(),
                   {x, means, scales, call.parameters[0], call.parameters[1], y, channels, area});
    kept.tensors = {means, scales};
    return y;
  }

  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors& kept,
                                     const DeviceTensor& gradient) const override {
    const DeviceTensor& x = call.inputs[0];
    const std::int64_t channels = x.shape[1], area = area_of(x);
    const DeviceTensor &means = kept.tensors[0], &scales = kept.tensors[1];
    DeviceTensor sums = call.queue.empty({channels}), products = call.queue.empty({channels});
    call.queue.run_groups("batch_norm_sums", channels,
                          {x, means, scales, gradient, sums, products, call.rows(), area});
    call.queue.run("add_to", channels, {call.gradients[0], products});
    call.queue.run("add_to", channels, {call.gradients[1], sums});
    if (!call.wanted[0]) return {DeviceTensor()};
    DeviceTensor gx = call.like_input();
    call.queue.run("batch_norm_back", x.size(),
                   {x, means, scales, call.parameters[0], sums, products, gradient, gx, channels,
                    area, call.rows() * area});
    return {gx};
  }

 private:
  static std::int64_t area_of(const DeviceTensor& x) {
    return x.shape.size() == 4 ? x.shape[2] * x.shape[3] : 1;
  }

  float epsilon_;
  float momentum_;
};

}  // namespace

DeviceOperationPtr make_device_norm(const LayerQuery& query) {
  if (query.type == "layer_norm") return std::make_unique<LayerNorm>(query.number("eps"));
  if (query.type != "batch_norm") return nullptr;
  return std::make_unique<BatchNorm>(query.number("eps"), query.number("momentum"));
}

}  // namespace harmonics::inline in_runtime
